#include "launcher/output/text_search.h"

namespace dtrain::launcher {

TextSearch::TextSearch(const std::vector<std::string>& texts) {
  put_into_classes(texts);
  std::vector<bool> found = grow_trie(texts);
  complete(found);
  // From numbers of states to their rows.
  for (std::uint32_t& state : next_) state = found[state] ? kFound : state * classes_;
  if (found[0]) start_ = kFound;
}

void TextSearch::put_into_classes(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    for (const char c : text) {
      std::uint16_t& its = class_of_[static_cast<unsigned char>(c)];
      if (its == 0) its = static_cast<std::uint16_t>(classes_++);
    }
  }
}

// A state for each beginning of a text, the empty one first. Returns which of them are a whole text.
std::vector<bool> TextSearch::grow_trie(const std::vector<std::string>& texts) {
  next_.assign(classes_, 0);  // nothing leads back to the empty one, so 0 is "not there"
  std::vector<bool> found(1, false);
  for (const std::string& text : texts) {
    std::uint32_t state = 0;
    for (const char c : text) {
      const size_t at = size_t{state} * classes_ + class_of_[static_cast<unsigned char>(c)];
      if (next_[at] == 0) {
        next_[at] = static_cast<std::uint32_t>(found.size());
        found.push_back(false);
        next_.resize(next_.size() + classes_, 0);
      }
      state = next_[at];
    }
    found[state] = true;
  }
  return found;
}

// Where no text goes on with a byte, the state is that of the longest end of what was read that begins a text. The
// shorter beginnings are completed first.
void TextSearch::complete(std::vector<bool>& found) {
  std::vector<std::uint32_t> order = {0};
  std::vector<std::uint32_t> longest_end(found.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) {
    const std::uint32_t state = order[i];
    for (std::uint32_t c = 0; c < classes_; ++c) {
      std::uint32_t& next = next_[size_t{state} * classes_ + c];
      const std::uint32_t otherwise = state == 0 ? 0 : next_[size_t{longest_end[state]} * classes_ + c];
      if (next != 0) {
        longest_end[next] = otherwise;
        if (found[otherwise]) found[next] = true;
        order.push_back(next);
      } else {
        next = otherwise;
      }
    }
  }
}

}  // namespace dtrain::launcher
