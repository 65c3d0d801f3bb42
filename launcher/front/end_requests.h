#pragma once
// The requests to end the job, as the front gets them: which signals are requests, which of them are one request that
// came several times, and when an agent that does not act on them must be given up.
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <vector>

#include "launcher/front/front_message.h"
#include "launcher/job/stop_requests.h"

namespace dtrain::launcher {

class EndRequests {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // How long after the second request a third one means that the agent itself is stuck.
  static constexpr auto kStuckAgent = std::chrono::seconds(3);

  // `signals`: those that end the job.
  explicit EndRequests(std::vector<int> signals) : signals_(std::move(signals)) {}

  bool is_request(int signal) const;
  bool any() const { return requests_.count() > 0; }

  // A signal came: what the agent is told. Empty: it belongs to a request that the agent has been told of.
  std::optional<FrontMessage> take(const StopSignal& signal, Time now);
  // The agent has been told twice, and a third request came later: the agent is stuck, on a dead file system perhaps.
  bool agent_is_stuck() const { return agent_is_stuck_; }

  // Whether the kernel holds a request for this process that nobody has read yet.
  bool one_is_pending() const;

 private:
  const std::vector<int> signals_;
  StopRequests requests_;
  Time second_{};
  bool agent_is_stuck_ = false;
};

}  // namespace dtrain::launcher
