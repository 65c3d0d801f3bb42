#pragma once
// clip_grad_norm() of all strategies.
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "dtrain/group.h"
#include "dtrain/optimizer.h"

namespace dtrain {

// As Parallel::clip_grad_norm. `sharing`: the ranks that have the other parts; null: this rank has all.
inline at::Tensor clip_by_norm(const std::vector<at::Tensor>& gradients, double max_norm, double norm_type,
                               const Group* sharing = nullptr) {
  const auto over_ranks = [sharing](c10d::ReduceOp op) {
    return sharing == nullptr ? SumOverRanks()
                              : [sharing, op](const at::Tensor& each) { sharing->all_reduce(each, op); };
  };
  if (norm_type == 2) return clip_by_global_norm(gradients, max_norm, over_ranks(c10d::ReduceOp::SUM));
  if (std::isinf(norm_type)) return clip_by_largest(gradients, max_norm, over_ranks(c10d::ReduceOp::MAX));
  throw ConfigError(fmt::format("dtrain: clip_grad_norm: norm_type {} must be 2 or infinity", norm_type));
}

}  // namespace dtrain
