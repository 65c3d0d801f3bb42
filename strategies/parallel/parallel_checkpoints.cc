// What of Parallel needs checkpoints; see include/dtrain/parallel.h.
#include "dtrain/parallel.h"
#include "strategies/checkpoint/pieces.h"
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

void ParallelCore::load_state(const std::string& path, ShardedOptimizer& optimizer, const LoadOptions& options) {
  CheckpointState wanted = state(&optimizer, Purpose::load);
  allow_counts_of_torch(wanted);
  load_safetensors(everyone(), path, wanted.optimizer, options, {"optimizer", "model"});
  const checkpoint::Said own{checkpoint::failure_of([&] { refuse_lost_counts(wanted); })};
  checkpoint::exchange(everyone(), path + " cannot be loaded", own);
  restore(optimizer, wanted);
}

}  // namespace dtrain
