#pragma once
// How the agent gets its rounds. One node alone opens them itself, with a store on a port of its own. Of several, one
// hosts rounds and store (round_hosting.h), and all of them, the host too, hold a link to it (round_joining.h). Across
// hosts each node's agent serves the store to its own workers. All on the agent's event loop.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/group_core.h"
#include "launcher/job_spec.h"
#include "launcher/round_joining.h"
#include "launcher/status_report.h"
#include "launcher/worker_env.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/store_host.h"

namespace dtrain::launcher {

class NodeRounds {
 public:
  struct Callbacks {
    std::function<void(const GroupEvent&)> feed;
    std::function<void(const std::string&)> say;         // one line for the user
    std::function<void(const std::string&)> progress;    // the same, again and again while nodes are missing
    std::function<void(std::optional<MonoTime>)> fence;  // Fence::set()
  };

  NodeRounds(boost::asio::io_context& io, const JobSpec& spec, Callbacks callbacks);

  // Take the port that the user named, before anything else happens; several nodes: begin to join. An error ends the
  // job: the port is taken.
  Result<void> open();
  // A fresh store for this round, and the node's place in it. The store listens when this returns.
  Result<Assignment> begin(const action::StartRound& round);
  // ReportFailure, ReportOver, ReportLeaving: to the host of the rounds; others are left alone.
  void report(const GroupAction& action);
  // What the host of the rounds knows; nothing: there is none, or it does not answer within half a second.
  using FactsTaker = std::function<void(std::optional<JobFacts>)>;
  void ask(FactsTaker taker);
  // Where the rounds of several nodes are, and what is waited for.
  void fill(AgentFacts& facts) const;
  // This agent has come to its end: leave the job. A host waits until the others have heard of it, at most a second.
  void close(const std::optional<Outcome>& outcome);

 private:
  Result<void> serve_alone();
  Result<void> start_store(StoreHost::Options options);
  Result<Assignment> begin_with_others(Assignment assignment);
  Result<void> start_edge();
  void received(const RoundMessage& message);
  void host_lost(const std::string& reason, Duration grace);
  void answer(const std::optional<JobFacts>& facts);
  void show_waiting(const msg::Waiting& waiting);
  void show(const std::string& text, std::optional<MonoTime> until);
  void repeat_waiting();
  void keep_fence();
  void drop_fence();

  const JobSpec& spec_;
  Callbacks callbacks_;
  SteadyClock clock_;
  std::unique_ptr<StoreHost> store_;       // of a node that does not host the rounds of others
  std::unique_ptr<RoundJoining> joining_;  // several nodes
  boost::asio::io_context& io_;
  boost::asio::steady_timer progress_;
  std::optional<MonoTime> waiting_until_;
  std::string waiting_text_;
  bool heard_ = false;  // the host of the rounds has answered
  std::vector<FactsTaker> askers_;
  boost::asio::steady_timer ask_until_;
  boost::asio::steady_timer fence_;
  NodePlace place_;
  bool in_round_ = false;  // there may be workers
  bool over_ = false;      // nothing more is fed
};

}  // namespace dtrain::launcher
