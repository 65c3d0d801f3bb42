#pragma once
// What the agent remembers for `dtrain status`, and its answer. On the agent's event loop.
#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "launcher/front.h"
#include "launcher/group_core.h"
#include "launcher/job_record.h"
#include "launcher/node_rounds.h"
#include "launcher/status_report.h"
#include "launcher/status_socket.h"

namespace dtrain::launcher {

class AgentStatus {
 public:
  struct Parts {
    const JobSpec& spec;
    const GroupCore& core;
    const JobRecord& record;
    NodeRounds& rounds;
    FrontNotes& notes;
  };
  AgentStatus(boost::asio::io_context& io, Parts parts) : io_(io), parts_(parts) {}

  // From now on it can be asked.
  void open();
  void close() { socket_.reset(); }
  // A decision and its reason.
  void decided(const std::string& text) { decisions_.add(text, clock_.now()); }
  // The core has taken in an event.
  void stepped();

 private:
  AgentFacts facts() const;

  boost::asio::io_context& io_;
  const Parts parts_;
  SteadyClock clock_;
  std::unique_ptr<StatusSocket> socket_;
  DecisionLog decisions_;
  GroupState state_ = GroupState::starting;
  const MonoTime begun_ = clock_.now();
  MonoTime since_ = begun_;  // when it came into this state
};

}  // namespace dtrain::launcher
