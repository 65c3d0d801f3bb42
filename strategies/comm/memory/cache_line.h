#pragma once
// Memory that large copies go to begins on a cache line, as tensors do. Processors with fast string moves (Zen 3) need
// twenty times as long for a memcpy to 1 to 63 bytes behind where the source lies in its page.
#include <cstddef>

namespace dtrain {

inline constexpr std::size_t kCacheLine = 64;

struct alignas(kCacheLine) CacheLine {
  std::byte bytes[kCacheLine];
};

// The whole lines in so many bytes, and those that hold them; both in bytes.
constexpr std::size_t lines_in(std::size_t bytes) { return bytes / kCacheLine * kCacheLine; }
constexpr std::size_t lines_for(std::size_t bytes) { return lines_in(bytes + kCacheLine - 1); }

}  // namespace dtrain
