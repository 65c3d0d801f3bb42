#pragma once
// What concerns all groups of a sharded model together, and not the schedule: their parts, and their gradients.
#include <memory>
#include <vector>

#include "dtrain/optimizer.h"
#include "strategies/shard/shard_group.h"

namespace dtrain {

using ShardGroups = std::vector<std::unique_ptr<ShardGroup>>;

std::vector<Shard> shards_of(const ShardGroups& groups);
std::vector<ShardRun> runs_of(const ShardGroups& groups);
// One for each run, in the type of its values.
std::vector<at::Tensor> wide_gradients_of(const ShardGroups& groups);

// The optimizer's step, with the gradients as the groups keep them.
void update_groups(const ShardGroups& groups, ShardedOptimizer& optimizer);
// As Parallel::clip_grad_norm(). Collective of `sharing`, which has the other parts. `in_order`: the bits of the norm
// do not depend on how many ranks those are.
at::Tensor clip_groups(const ShardGroups& groups, double max_norm, double norm_type, const Group& sharing,
                       bool in_order);

}  // namespace dtrain
