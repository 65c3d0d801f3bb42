#pragma once
// How an agent becomes one of a job's several nodes: it finds the agent that hosts the rounds, or becomes that agent
// itself (launcher/finding), and then holds a link to it. JoinCore decides when; this carries it out on the agent's
// event loop.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/finding/host_finder.h"
#include "launcher/hosting/hosted_job.h"
#include "launcher/hosting/join_core.h"
#include "launcher/job/job_spec.h"
#include "rendezvous/agent_link/round_link.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/munge/munge_ask.h"

namespace dtrain::launcher {

class RoundJoining {
 public:
  struct Callbacks {
    std::function<void(const RoundMessage&)> message;
    // Nobody to join yet. `until` is the latest end of the wait.
    std::function<void(const std::string& text, MonoTime until)> waiting;
    // Called once, and last: there is nobody to join, or the host is gone. `grace`: the others may soon go on without
    // this node, so its workers have only that long to end.
    std::function<void(const Verdict& verdict, std::optional<Duration> grace)> over;
    // The host is gone or cut off, but the job may not be. Once this node has no workers, call join_again().
    std::function<void(const std::string& reason, Duration grace)> lost;
    // This node's fence has passed, which an agent that runs does not let happen.
    std::function<bool()> did_not_run;
  };

  // `spec` and `say` outlive this.
  RoundJoining(boost::asio::io_context& io, const JobSpec& spec, const Say& say, Callbacks callbacks);

  // Takes what only this node may have, and begins to join.
  Result<void> open();
  void join_again() { feed(join_event::Begin{}); }
  void send(const RoundMessage& message) { link_.send(message); }
  void leave(const msg::Leaving& message);
  // This node's workers must be dead by then, unless the time is put off. None: nobody goes on without this node.
  std::optional<MonoTime> fenced_at() const;
  bool hostless() const { return core_.hostless(); }
  // Null: another agent hosts the job, at host_address() and host_port().
  HostedJob* hosting() { return hosting_.get(); }
  // A server of many jobs hosts the rounds. No worker connects to such a server's stores by itself.
  bool at_server() const { return core_.at_server(); }
  const std::string& host_address() const { return link_.address(); }
  std::uint16_t host_port() const { return static_cast<std::uint16_t>(core_.host().port); }
  // What the agents of this job know each other by, once this one knows it.
  const std::optional<LinkCredential>& credential() const { return credential_; }
  // Where the nodes meet, as the user named the place.
  std::string endpoint() const { return finder_->endpoint(); }
  // Leaves the job; a host ends the job with this verdict. `died`: nobody has decided that the job ends. Where others
  // can follow their host they are then told nothing, as after a kill. `until`: HostedJob::close().
  void close(const Verdict& as_host, bool died, std::optional<MonoTime> until);

 private:
  HostFinder::Answers answers();
  HostFollower::Callbacks follows();
  void feed(const JoinEvent& event);
  void perform(const JoinAction& action);
  JoinScene scene() const;
  void arm();
  void host(HostFinder::Here here);
  void dial_here();
  void dial(const HostPlace& host);
  void ask_for_secret(const HostPlace& host);
  void received(const RoundMessage& message);
  void opened(const msg::Open& open);
  void unreachable(const Error& error);
  void link_lost(bool joined, const std::string& reason, TlsFault fault);
  void turned_away(const std::string& reason, TlsFault fault);
  void end(const Verdict& verdict, std::optional<Duration> grace = std::nullopt);
  bool survives_host() const { return follower_ != nullptr && follower_->survives_host(); }
  void tell_follower(const HostNews& news);
  void complete(const std::string& own_address, NodeInfo& node);

  boost::asio::io_context& io_;
  const JobSpec& spec_;
  const Say& say_;
  Callbacks callbacks_;
  NodeInfo info_;  // of this node, as Join says it
  JoinCore core_;
  boost::asio::steady_timer timer_;
  std::unique_ptr<HostFinder> finder_;
  HostFollower* const follower_;  // the finder's
  std::unique_ptr<HostedJob> hosting_;
  RoundLink link_;
  bool told_ = false;  // the follower knows that the host has answered
  std::optional<LinkCredential> credential_;
  std::optional<MungeAsk> ask_;
};

}  // namespace dtrain::launcher
