#pragma once
// 64 random bits for each number, the same on every machine and in any order of asking. Pure.
#include <cstdint>

namespace dtrain::data {

// The output function of SplitMix64 (Steele, Lea and Flood): each bit of the input changes half of the bits.
constexpr std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

// Draw number `counter` of the stream `key`.
constexpr std::uint64_t random_bits(std::uint64_t key, std::uint64_t counter) {
  return mixed(key + (counter + 1) * 0x9E3779B97F4A7C15ULL);
}

}  // namespace dtrain::data
