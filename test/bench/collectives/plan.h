#pragma once
// What the three programs that run.py compares have in common; collectives_worker.py follows it in Python.
//   PROGRAM OP TYPE BYTES[,BYTES...]
// BYTES are those of one rank's tensor; where it has a part for each rank (all_gather's output, reduce_scatter's and
// all_to_all's input) they are the bytes of all parts. Rank 0 prints "BYTES MICROSECONDS" for each size: the median of
// five rows of operations, each row timed as a whole from a barrier on.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

namespace dtrain::bench {

inline std::vector<std::size_t> sizes_of(const std::string& list) {
  std::vector<std::size_t> sizes;
  std::istringstream in(list);
  for (std::string size; std::getline(in, size, ',');) sizes.push_back(std::stoull(size));
  return sizes;
}

// Operations in a row: many small ones, a few large ones.
inline int row_length(std::size_t bytes) {
  constexpr std::size_t kBytesOfRow = std::size_t{128} << 20;
  return static_cast<int>(std::clamp<std::size_t>(kBytesOfRow / std::max<std::size_t>(bytes, 1), 2, 1000));
}

// Microseconds of one run(). `align` brings all ranks to the same point.
template <class Align, class Run>
double measure_rows(int length, Align align, Run run) {
  using Clock = std::chrono::steady_clock;
  std::array<double, 5> rows{};
  run();
  for (double& row : rows) {
    align();
    const auto begin = Clock::now();
    for (int i = 0; i < length; ++i) run();
    row = std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / length;
  }
  std::sort(rows.begin(), rows.end());
  return rows[rows.size() / 2];
}

template <class Align, class Run>
double measure(std::size_t bytes, Align align, Run run) {
  return measure_rows(row_length(bytes), align, run);
}

}  // namespace dtrain::bench
