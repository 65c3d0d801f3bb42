#pragma once
// How long poll() may wait.
#include <chrono>

namespace dtrain::launcher {

// The timeout for poll() that ends at this time, rounded up; 0: the time has passed.
inline int milliseconds_until(std::chrono::steady_clock::time_point t) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(t - std::chrono::steady_clock::now());
  return left.count() < 0 ? 0 : int(left.count()) + 1;
}

}  // namespace dtrain::launcher
