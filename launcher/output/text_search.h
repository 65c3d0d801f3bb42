#pragma once
// TextSearch tells whether a line contains one of many texts, in one pass over the line however many they are
// (Aho-Corasick, as a table of states). Pure.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace dtrain::launcher {

class TextSearch {
 public:
  // Memory: 4 bytes for each byte of the texts, times the number of different bytes in them. An empty text is in every
  // line.
  explicit TextSearch(const std::vector<std::string>& texts);

  // `line` has size() and bytes, as a std::string_view has.
  bool found_in(const auto& line) const {
    std::uint32_t state = start_;
    for (size_t i = 0; state != kFound && i < line.size(); ++i)
      state = next_[state + class_of_[static_cast<unsigned char>(line[i])]];
    return state == kFound;
  }

 private:
  static constexpr std::uint32_t kFound = UINT32_MAX;

  void put_into_classes(const std::vector<std::string>& texts);
  std::vector<bool> grow_trie(const std::vector<std::string>& texts);
  void complete(std::vector<bool>& found);

  // A state is where its row begins in next_; the row has a state for each class of bytes.
  std::vector<std::uint32_t> next_;
  std::array<std::uint16_t, 256> class_of_{};  // 0: bytes that are in no text
  std::uint32_t classes_ = 1;
  std::uint32_t start_ = 0;
};

}  // namespace dtrain::launcher
