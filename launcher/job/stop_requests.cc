#include "launcher/job/stop_requests.h"

namespace dtrain::launcher {

StopMeaning StopRequests::take(const StopSignal& signal, MonoTime now) {
  const bool key = signal.code == SI_KERNEL;
  if (last_ && !signal.counted) {
    // A terminal that hangs up, a parent that dies: news of those who asked before, and no impatience.
    if (signal.signal == SIGHUP || signal.by_death) return StopMeaning::same;
    if (now - last_->at <= (key && last_->key ? kOneKey : kOneRequest)) return StopMeaning::same;
  }
  last_ = {key, now};
  return ++count_ == 1 ? StopMeaning::first : StopMeaning::again;
}

}  // namespace dtrain::launcher
