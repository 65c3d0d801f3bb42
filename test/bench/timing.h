#pragma once
// What benchmarks in C++ share: times, and their median.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace dtrain::bench {

using Clock = std::chrono::steady_clock;

inline double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// The upper one of two. `values` has one or more.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace dtrain::bench
