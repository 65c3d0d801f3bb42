#pragma once
// How the agent gets its rounds. One node alone opens them itself, with a store on a port of its own. Of several, one
// hosts store and rounds at the port that the user named (the first node of a static job, else whoever binds it first)
// and all of them, the host too, hold a link to it. All on the agent's event loop.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/group_core.h"
#include "launcher/job_spec.h"
#include "launcher/worker_env.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/round_host.h"
#include "rendezvous/round_link.h"
#include "rendezvous/store_host.h"

namespace dtrain::launcher {

class NodeRounds {
 public:
  struct Callbacks {
    std::function<void(const GroupEvent&)> feed;
    std::function<void(const std::string&)> say;  // one line for the user
  };

  NodeRounds(boost::asio::io_context& io, const JobSpec& spec, Callbacks callbacks);

  // Take the port that the user named, before anything else happens; several nodes: begin to join. An error ends the
  // job: the port is taken.
  Result<void> open();
  // A fresh store for this round, and the node's place in it. The store listens when this returns.
  Result<Assignment> begin(const action::StartRound& round);
  // ReportFailure, ReportOver, ReportLeaving: to the host of the rounds; others are left alone.
  void report(const GroupAction& action);
  // This agent has come to its end: leave the job. A host waits until the others have heard of it, at most a second.
  void close(const std::optional<Outcome>& outcome);

 private:
  Result<void> serve_alone();
  Result<bool> serve_rounds();
  NodeInfo own_info() const;
  void join();
  void try_to_join();
  void try_again_later();
  void joined_late();
  void received(const RoundMessage& message);
  void link_lost(bool joined, const std::string& reason);
  void give_up(JobEnd how, int exit_code, const std::string& reason);
  void show_waiting(const msg::Waiting& waiting);
  void repeat_waiting();
  std::string endpoint() const;

  boost::asio::io_context& io_;
  const JobSpec& spec_;
  Callbacks callbacks_;
  SteadyClock clock_;
  std::string agent_id_;
  std::uint16_t port_;  // where the nodes meet; 0: the host takes a free one
  std::unique_ptr<RoundHost> host_;
  std::unique_ptr<StoreHost> store_;  // after host_: its thread hands over to it
  RoundLink link_;
  boost::asio::steady_timer retry_;
  boost::asio::steady_timer progress_;
  Duration retry_after_{};
  int turned_away_ = 0;
  MonoTime give_up_at_{};
  std::optional<MonoTime> waiting_until_;
  std::string waiting_text_;
  NodePlace place_;
  bool over_ = false;  // nothing more is fed
};

}  // namespace dtrain::launcher
