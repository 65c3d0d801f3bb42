#pragma once
// The norm that clip_grad_norm() of all strategies goes by.
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "dtrain/group.h"
#include "strategies/optim/clip.h"

namespace dtrain {

// Of all gradients. `sharing`: the ranks that have the other parts, a collective of them; null: this rank has all.
inline at::Tensor norm_of_all(const std::vector<at::Tensor>& gradients, double norm_type,
                              const Group* sharing = nullptr) {
  const auto over_ranks = [sharing](c10d::ReduceOp op) {
    return sharing == nullptr ? SumOverRanks()
                              : [sharing, op](const at::Tensor& each) { sharing->all_reduce(each, op); };
  };
  if (norm_type == 2) return global_norm_of(gradients, over_ranks(c10d::ReduceOp::SUM));
  if (std::isinf(norm_type)) return largest_of(gradients, over_ranks(c10d::ReduceOp::MAX));
  throw ConfigError(fmt::format("dtrain: clip_grad_norm: norm_type {} must be 2 or infinity", norm_type));
}

}  // namespace dtrain
