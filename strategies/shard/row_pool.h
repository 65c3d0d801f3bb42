#pragma once
// Memory for rows of gradients, which one group after another uses. Fresh memory costs page faults in each backward.
#include <utility>
#include <vector>

#include "strategies/torch/pch.h"

namespace dtrain {

class RowPool {
 public:
  // Keeps at most so many rows that nobody uses: by default one that was filled, one that was on its way, and one of
  // another size.
  explicit RowPool(std::size_t most = 3) : most_(most) {}
  // A row that was given back, or what `make` makes.
  template <class Make>
  at::Tensor take(std::int64_t elements, at::ScalarType type, const Make& make) {
    for (auto row = rows_.begin(); row != rows_.end(); ++row) {
      if (row->numel() != elements || row->scalar_type() != type) continue;
      at::Tensor found = std::move(*row);
      rows_.erase(row);
      return found;
    }
    return make();
  }
  // Nobody reads it any more. The oldest one goes if there are too many. A GPU's allocator keeps memory itself.
  void give_back(at::Tensor row) {
    if (!row.defined() || !row.is_cpu()) return;
    if (rows_.size() >= most_) rows_.erase(rows_.begin());
    rows_.push_back(std::move(row));
  }

 private:
  std::size_t most_;
  std::vector<at::Tensor> rows_;
};

}  // namespace dtrain
