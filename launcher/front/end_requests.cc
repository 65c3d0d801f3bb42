#include "launcher/front/end_requests.h"

#include <algorithm>
#include <csignal>

namespace dtrain::launcher {

bool EndRequests::is_request(int signal) const {
  return std::find(signals_.begin(), signals_.end(), signal) != signals_.end();
}

std::optional<FrontMessage> EndRequests::take(const StopSignal& signal, Time now) {
  const StopMeaning meaning = requests_.take(signal, now);
  if (meaning == StopMeaning::same) return std::nullopt;
  if (requests_.count() == 2) second_ = now;
  agent_is_stuck_ = requests_.count() > 2 && now > second_ + kStuckAgent;
  return FrontMessage{meaning == StopMeaning::first ? FrontMessage::Op::stop : FrontMessage::Op::stop_again,
                      signal.signal};
}

bool EndRequests::one_is_pending() const {
  sigset_t pending;
  ::sigpending(&pending);
  return std::any_of(signals_.begin(), signals_.end(), [&](int s) { return ::sigismember(&pending, s) == 1; });
}

}  // namespace dtrain::launcher
