#pragma once
// The binary form of CIFAR-10 (https://www.cs.toronto.edu/~kriz/cifar.html): a file is a row of records, each a byte
// with the class and then 32 x 32 bytes of red, of green and of blue, row by row. What is known of such files without
// reading one; needs no torch.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace resnet {

inline constexpr std::int64_t kCifarSide = 32;
inline constexpr std::size_t kCifarPixels = 3UL * kCifarSide * kCifarSide;
inline constexpr std::size_t kCifarRecord = 1 + kCifarPixels;

inline constexpr std::array<std::string_view, 5> kCifarTrain = {
    "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"};
inline constexpr std::array<std::string_view, 1> kCifarTest = {"test_batch.bin"};

// Records in a file of `bytes`. Throws std::runtime_error, which names the file, if that is no whole number above 0.
std::int64_t cifar_records(std::uint64_t bytes, const std::string& path);

// Record `index` of several files in a row.
class CifarPlaces {
 public:
  // The records of each file.
  explicit CifarPlaces(const std::vector<std::int64_t>& records);

  struct Place {
    std::size_t file;
    std::int64_t record;  // within the file
    bool operator==(const Place&) const = default;
  };
  std::int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  // Throws std::out_of_range.
  Place find(std::int64_t index) const;

 private:
  std::vector<std::int64_t> ends_;  // of each file, counted from the first record of all
};

// The class of a record. Throws std::runtime_error, which names the place, for one that is not below `classes`.
std::int64_t cifar_label(std::span<const std::uint8_t> record, std::int64_t classes, const std::string& path,
                         std::int64_t number);

}  // namespace resnet
