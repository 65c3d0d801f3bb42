#pragma once
// What the agent remembers for `dtrain status`, and the answer that it gives; what it tells others unasked is
// trainer_posts.h's. On the agent's event loop.
// Tested by test/process/launcher/status_test.py.
#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "launcher/agent/trainer_posts.h"
#include "launcher/evidence/worker_table.h"
#include "launcher/front/front.h"
#include "launcher/hosting/node_rounds.h"
#include "launcher/job/group_core.h"
#include "launcher/status/status_report.h"
#include "launcher/status/status_socket.h"
#include "launcher/status/worker_activity.h"

namespace dtrain::launcher {

class AgentStatus {
 public:
  struct Parts {
    const JobSpec& spec;
    const GroupCore& core;
    const WorkerTable& workers;
    NodeRounds& rounds;
    JobNotes& notes;
    const Say& say;
  };
  AgentStatus(boost::asio::io_context& io, Parts parts)
      : io_(io), parts_(parts), posts_(io, {parts.spec, parts.core, parts.workers, parts.say}) {}

  // From now on the agent can be asked. Returns what the user should know of the socket; empty: nothing.
  std::string open();
  // The job is over, or was cut off (none).
  void close(const std::optional<Outcome>& outcome) {
    socket_.reset();
    posts_.close(outcome);
  }
  // After that, once nothing else waits for the agent.
  void wait_for_posts() { posts_.wait(); }
  // A decision and its reason.
  void decided(const std::string& text) { decisions_.add(text, SteadyClock::now()); }
  // The core has taken in an event.
  void stepped();

 private:
  AgentFacts facts();
  void look_at(WorkerNow& worker);

  boost::asio::io_context& io_;
  const Parts parts_;
  std::unique_ptr<StatusSocket> socket_;
  TrainerPosts posts_;
  DecisionLog decisions_;
  GroupState state_ = GroupState::starting;
  const MonoTime begun_ = SteadyClock::now();
  MonoTime since_ = begun_;                     // when the core came into this state
  std::map<pid_t, WorkerActivity> activities_;  // of the workers of this round
};

}  // namespace dtrain::launcher
