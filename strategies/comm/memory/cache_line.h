#pragma once
// Memory that large copies go to begins on a cache line, as tensors do. If a memcpy's target lies 1 to 63 bytes further
// in its page than the source lies in its own, processors with fast string moves (Zen 3) take twenty times as long.
#include <cstddef>

namespace dtrain {

inline constexpr std::size_t kCacheLine = 64;

struct alignas(kCacheLine) CacheLine {
  std::byte bytes[kCacheLine];
};

// `bytes` rounded down, and rounded up, to whole lines.
constexpr std::size_t lines_in(std::size_t bytes) { return bytes / kCacheLine * kCacheLine; }
constexpr std::size_t lines_for(std::size_t bytes) { return lines_in(bytes + kCacheLine - 1); }

}  // namespace dtrain
