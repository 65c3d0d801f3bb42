#pragma once
// Where each row goes: into which part of the split, and to which place in it. Pure.
//
// A row's key is 64 random bits, drawn from the seed, the number of the unit of input that it is in, and its number
// there. A part's rows are written in the order of their keys: a full shuffle. A bucket is a range of keys, small
// enough to be sorted in memory; how many there are does not change the order.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/base/random_bits.h"

namespace dtrain::data {

class RowKeys {
 public:
  RowKeys(std::uint64_t seed, std::uint64_t unit)
      : shuffle_(random_bits(random_bits(seed, 0), unit)), split_(random_bits(random_bits(seed, 1), unit)) {}
  std::uint64_t of_order(std::uint64_t row) const { return random_bits(shuffle_, row); }
  std::uint64_t of_split(std::uint64_t row) const { return random_bits(split_, row); }

 private:
  std::uint64_t shuffle_, split_;
};

// Which part a random number belongs to: the parts' shares lie side by side on a line.
class PartChooser {
 public:
  explicit PartChooser(const std::vector<std::pair<std::string, double>>& shares) {
    double sum = 0;
    for (const auto& [name, share] : shares) ends_.push_back(sum += share);
    ends_.back() = 1;
  }
  std::size_t part(std::uint64_t bits) const {
    const double at = static_cast<double>(bits >> 11) * 0x1p-53;
    std::size_t part = 0;
    while (part + 1 < ends_.size() && at >= ends_[part]) ++part;
    return part;
  }

 private:
  std::vector<double> ends_;
};

// Buckets of each part, for so many bytes of rows: about `bucket_bytes` in each.
inline std::vector<std::uint32_t> bucket_counts(const std::vector<std::pair<std::string, double>>& shares,
                                                std::int64_t bytes, std::int64_t bucket_bytes) {
  constexpr double kBucketsMax = 65536;
  std::vector<std::uint32_t> counts;
  for (const auto& [name, share] : shares) {
    const double wanted = share * static_cast<double>(bytes) / static_cast<double>(bucket_bytes);
    counts.push_back(static_cast<std::uint32_t>(std::clamp(wanted + 1, 1.0, kBucketsMax)));
  }
  return counts;
}

// The bucket of a key, of `count`: keys of bucket b are all below those of bucket b + 1.
constexpr std::uint32_t bucket_of_key(std::uint64_t key, std::uint32_t count) {
  return static_cast<std::uint32_t>(((key >> 32) * count) >> 32);
}

// Name of file `number`, from 0, of at most `count`: sorted as texts, all names are in the order of their numbers.
inline std::string part_name(std::size_t number, std::size_t count) {
  constexpr std::size_t kDigits = 5;
  const std::size_t width = std::max(kDigits, std::to_string(count == 0 ? 0 : count - 1).size());
  const std::string digits = std::to_string(number);
  return "part-" + std::string(width - std::min(width, digits.size()), '0') + digits + ".parquet";
}

}  // namespace dtrain::data
