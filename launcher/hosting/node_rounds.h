#pragma once
// How the agent gets its rounds. A node that is alone opens them itself, with a store on a port of its own. Of several
// nodes one hosts rounds and store (hosted_job.h), and all of them, the host too, hold a link to it (round_joining.h).
// Across hosts each node's agent serves the store to its own workers. All on the agent's event loop.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/hosting/facts_question.h"
#include "launcher/hosting/round_joining.h"
#include "launcher/hosting/waiting_line.h"
#include "launcher/job/group_core.h"
#include "launcher/job/job_spec.h"
#include "launcher/job/worker_env.h"
#include "launcher/status/status_report.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/say.h"
#include "rendezvous/store_server/store_host.h"

namespace dtrain::launcher {

class NodeRounds {
 public:
  struct Callbacks {
    std::function<void(const GroupEvent&)> feed;
    Say progress;                                        // one line, again and again while nodes are missing
    std::function<void(std::optional<MonoTime>)> fence;  // Fence::set()
    std::function<bool()> fence_passed;                  // Fence::passed()
  };

  // `spec` and `say` outlive this.
  NodeRounds(boost::asio::io_context& io, const JobSpec& spec, const Say& say, Callbacks callbacks);

  // Takes the port that the user named, before anything else happens. One of several nodes begins to join. An error
  // ends the job: the port is taken.
  Result<void> open();
  // Makes a fresh store for this round, and tells the node's place in it. The store listens when this returns.
  Result<Assignment> begin(const action::StartRound& round);
  // Tells the host of the rounds about ReportFailure, ReportOver and ReportLeaving, and the workers, by the store,
  // about WorkerGone. Other actions change nothing.
  void report(const GroupAction& action);
  // Asks the host of the rounds what it knows. Nothing: there is no host, or no answer within half a second.
  void ask(FactsQuestion::Taker taker);
  // Adds where the rounds of several nodes are, and what this node waits for.
  void fill(AgentFacts& facts) const;
  // The nodes have agreed how the job ends, so nothing more comes of this node's links.
  bool agreed_on_end() const { return over_; }
  // Leaves the job, since this agent has come to its end. A host waits until the others have left, at most a second, or
  // until then.
  void close(const std::optional<Outcome>& outcome, std::optional<MonoTime> until = {});

 private:
  Result<void> serve_alone();
  Result<void> start_store(StoreHost::Options options);
  Result<Assignment> begin_with_others(Assignment assignment);
  Result<void> start_edge();
  StoreHost* own_store() const;
  void tell_workers(const action::WorkerGone& gone);
  void received(const RoundMessage& message);
  void host_lost(const std::string& reason, Duration grace);
  void show_waiting(const msg::Waiting& waiting);
  void over(const Verdict& verdict, std::optional<Duration> grace);
  void keep_fence();
  void drop_fence();
  bool did_not_run();

  const JobSpec& spec_;
  const Say& say_;
  Callbacks callbacks_;
  std::unique_ptr<StoreHost> store_;       // of a node that does not host the rounds of others
  std::unique_ptr<RoundJoining> joining_;  // one of several nodes; else null
  boost::asio::io_context& io_;
  WaitingLine waiting_;
  FactsQuestion question_;
  boost::asio::steady_timer fence_;
  bool passed_fence_ = false;  // in the last round, before this agent knew of anything
  NodePlace place_;
  bool heard_ = false;     // the host of the rounds has answered
  bool in_round_ = false;  // there may be workers
  bool over_ = false;      // nothing more is fed
};

}  // namespace dtrain::launcher
