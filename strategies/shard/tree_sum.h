#pragma once
// Sums in the order of a balanced binary tree, so that the bits do not depend on who has which part of it.
#include <utility>
#include <vector>

#include "strategies/torch/pch.h"

namespace dtrain {

// Adds up rows that come one after the other: ((a + b) + (c + d)) + ... At most one row for each level is kept.
class TreeSum {
 public:
  // The row may be changed from now on. `drop` gets rows that are no longer needed.
  template <class Drop>
  void add(at::Tensor row, const Drop& drop) {
    int level = 0;
    while (!levels_.empty() && levels_.back().first == level) {
      levels_.back().second.add_(row);
      drop(std::exchange(row, levels_.back().second));
      levels_.pop_back();
      ++level;
    }
    levels_.emplace_back(level, std::move(row));
  }
  // Whether a power of two have come: else the sum would not be a part of a larger tree.
  bool is_complete() const { return levels_.size() == 1; }
  at::Tensor take() {
    at::Tensor sum = std::move(levels_.front().second);
    levels_.clear();
    return sum;
  }
  void clear() { levels_.clear(); }

 private:
  std::vector<std::pair<int, at::Tensor>> levels_;  // largest first
};

// The sum of the rows of a matrix of a power of two of them, in its first row.
inline at::Tensor tree_sum(const at::Tensor& rows) {
  for (std::int64_t step = 1; step < rows.size(0); step *= 2) {
    for (std::int64_t i = 0; i < rows.size(0); i += 2 * step) rows[i].add_(rows[i + step]);
  }
  return rows[0];
}

}  // namespace dtrain
