#pragma once
// What a checkpoint has of a model: by the names and shapes of the module, so that it is the same for all strategies.
#include <vector>

#include "dtrain/parallel.h"

namespace dtrain {

// Which part of what it has a rank saves, and reads.
struct SavingRank {
  int rank = 0;
  int of = 0;         // all ranks have all, and this is how many there are; 0: `shards` are this rank's own
  bool saves = true;  // false: another rank saves the same shards
};

// `shards`: this rank's part of each parameter. What several ranks have, one of them saves, and one reads it; but for
// the counts of updates, of a few bytes, which each reads. What a rank keeps in memory is its own shards, even if
// another rank has them too; where all ranks have all, its share; and its own buffers. All that it has is filled from
// there.
CheckpointState state_of(torch::nn::Module& module, const std::vector<Shard>& shards, const ShardedOptimizer* optimizer,
                         ParallelCore::Purpose purpose, const SavingRank& saving);

// The values of these shards, if `weights`, and of the optimizer's state for them, as rows.
std::vector<at::Tensor> rows_of(const std::vector<Shard>& shards, bool weights, const ShardedOptimizer* optimizer);
// Of a row that all ranks have, what this one saves and reads.
at::Tensor share_of(const at::Tensor& row, int rank, int of);

// A state to be filled may come from torch: its counts of updates are float32, and SGD and Muon have none (then the
// count is 1: there is a momentum).
void allow_counts_of_torch(CheckpointState& state);
// Why its counts cannot be right: a parameter has averages of gradients, and no update that made them. Empty: they can.
std::string lost_count(const CheckpointState& state);

}  // namespace dtrain
