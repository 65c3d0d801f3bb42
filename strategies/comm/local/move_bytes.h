#pragma once
// Copies within the memory of one rank, whose buffers may be the same or overlap.
#include <cstddef>
#include <cstring>
#include <functional>
#include <span>

namespace dtrain {

// In an operation in place, a rank's own part lies in its output already, perhaps at another place.
inline void move_bytes(std::byte* to, std::span<const std::byte> from) {
  if (!from.empty() && to != from.data()) std::memmove(to, from.data(), from.size());
}

inline bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  const std::less<const std::byte*> before;
  return before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
}

}  // namespace dtrain
