// What of Parallel needs checkpoints; see include/dtrain/parallel.h.
#include "dtrain/parallel.h"

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

}  // namespace dtrain
