#include "strategies/parallel/all_groups.h"

#include "strategies/parallel/exact_norm.h"
#include "strategies/parallel/gradient_norm.h"

namespace dtrain {

std::vector<Shard> shards_of(const ShardGroups& groups) {
  std::vector<Shard> found;
  for (const auto& group : groups) {
    const std::vector<Shard> its = group->shards();
    found.insert(found.end(), its.begin(), its.end());
  }
  return found;
}

std::vector<ShardRun> runs_of(const ShardGroups& groups) {
  std::vector<ShardRun> found;
  for (const auto& group : groups) found.insert(found.end(), group->runs().begin(), group->runs().end());
  return found;
}

std::vector<at::Tensor> wide_gradients_of(const ShardGroups& groups) {
  std::vector<at::Tensor> found;
  for (const auto& group : groups) {
    group->widen_gradient();
    for (const ShardRun& run : group->runs()) found.push_back(run.values.grad());
  }
  return found;
}

void update_groups(const ShardGroups& groups, ShardedOptimizer& optimizer) {
  std::vector<at::Tensor> gradients, scales;
  for (const auto& group : groups) {
    for (const ShardRun& run : group->runs()) {
      gradients.push_back(run.values.grad());
      scales.push_back(group->gradient_scale());
    }
  }
  optimizer.step(gradients, scales);
}

at::Tensor clip_groups(const ShardGroups& groups, double max_norm, double norm_type, const Group& sharing,
                       bool in_order) {
  const at::NoGradGuard no_grad;
  require_clip_limit("clip_grad_norm", max_norm);
  std::vector<at::Tensor> gradients;
  for (const auto& group : groups) gradients.push_back(group->gradient());
  const at::Tensor norm = in_order && norm_type == 2 ? exact_norm_of(gradients, sharing, groups.front()->device())
                                                     : norm_of_all(gradients, norm_type, &sharing);
  if (const at::Tensor factor = clip_factor(norm, max_norm); factor.defined()) {
    for (const auto& group : groups) group->scale_gradient(factor);
  }
  return norm;
}

}  // namespace dtrain
