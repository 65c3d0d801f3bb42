// What of Parallel needs checkpoints; see include/dtrain/parallel.h.
#include <fmt/format.h>

#include "dtrain/parallel.h"
#include "strategies/collectives/texts.h"
#include "strategies/parallel/model_state.h"

namespace dtrain {

PendingCopy ParallelCore::save_async(Checkpoints& checkpoints, std::int64_t step, ShardedOptimizer& optimizer,
                                     std::string extra) {
  copy_.wait();  // for other checkpoints
  CheckpointState saved = state(&optimizer, Purpose::save);
  saved.step = step;
  saved.extra = std::move(extra);
  copy_ = checkpoints.save_async(saved, Copy::in_background);
  optimizer.before_change([copy = copy_]() mutable { copy.wait(); });
  return copy_;
}

void ParallelCore::load_weights(const std::string& path, const LoadOptions& options) {
  begin_step();
  CheckpointState wanted = state(nullptr, Purpose::load);
  load_safetensors(everyone(), path, wanted.model, options);
  spread(true, nullptr);
  end_step();
}

void ParallelCore::load_state(const std::string& path, ShardedOptimizer& optimizer, const LoadOptions& options) {
  begin_step();
  CheckpointState wanted = state(&optimizer, Purpose::load);
  allow_counts_of_torch(wanted);
  const Group group = everyone();
  load_safetensors(group, path, wanted.optimizer, options, {"optimizer", "model"});
  const std::vector<std::string> lost = all_gather_texts(group.process_group(), lost_count(wanted));
  for (std::size_t rank = 0; rank < lost.size(); ++rank)
    if (!lost[rank].empty())
      throw CheckpointError(fmt::format("dtrain: {} cannot be loaded: rank {}: {}", path, rank, lost[rank]));
  spread(false, &optimizer);
  restore(optimizer, wanted);
  end_step();
}

}  // namespace dtrain
