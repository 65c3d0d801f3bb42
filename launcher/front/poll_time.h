#pragma once
// How long poll() may wait.
#include <algorithm>
#include <chrono>

namespace dtrain::launcher {

// The timeout for poll() that ends at this time, rounded up, or after a day; 0: the time has passed.
inline int milliseconds_until(std::chrono::steady_clock::time_point t) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24);
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(t - std::chrono::steady_clock::now());
  return left.count() < 0 ? 0 : int(std::min(left, kLongest).count()) + 1;
}

}  // namespace dtrain::launcher
