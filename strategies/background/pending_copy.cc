// PendingCopy; see include/dtrain/checkpoint.h. A Parallel has one, also where nothing is saved: so this is a file of
// its own, which programs without checkpoints link.
#include "dtrain/checkpoint.h"
#include "strategies/background/value_copy.h"

namespace dtrain {

bool PendingCopy::is_complete() const noexcept { return !copy_ || copy_->is_complete(); }
void PendingCopy::wait() noexcept {
  if (copy_) copy_->run();
  copy_.reset();
}

}  // namespace dtrain
