#pragma once
// How an agent becomes one of a job's several nodes: it looks for the agent that hosts the rounds, or becomes that
// agent itself (host_finder.h), and then holds a link to it. Until it has joined it tries again, for as long as the
// user lets it. On the agent's event loop.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/host_finder.h"
#include "launcher/job_spec.h"
#include "launcher/round_hosting.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/munge_ask.h"
#include "rendezvous/round_link.h"

namespace dtrain::launcher {

class RoundJoining {
 public:
  struct Callbacks {
    std::function<void(const RoundMessage&)> message;
    // Nobody to join yet; at the longest until then.
    std::function<void(const std::string& text, MonoTime until)> waiting;
    // Once, and the last: there is nobody to join, or the host is gone. `grace`: the others may soon go on without this
    // node, so its workers have only that long to end.
    std::function<void(const Verdict& verdict, std::optional<Duration> grace)> over;
    // The host is gone or cut off, but the job may not be: when this node has no workers, join_again().
    std::function<void(const std::string& reason, Duration grace)> lost;
    std::function<void(const std::string&)> say;  // one line for the user
  };

  RoundJoining(boost::asio::io_context& io, const JobSpec& spec, Callbacks callbacks);

  // Take what only this node may have; begin to join. No callback but `say` from within.
  Result<void> open();
  void send(const RoundMessage& message) { link_.send(message); }
  void leave(const msg::Leaving& message) {
    finder_->leaves();
    link_.send(message);
  }
  // By then this node's workers must be dead, unless it is put off; none: nobody goes on without this node.
  std::optional<MonoTime> fenced_at() const { return hosting_ ? finder_->fenced_at() : link_.fenced_at(); }
  bool hostless() const { return !lost_because_.empty(); }
  void join_again();
  // Null: another agent hosts the job, at host_address() and host_port().
  RoundHosting* hosting() { return hosting_.get(); }
  // The rounds are hosted by a server of many jobs, to whose stores no worker comes by itself.
  bool at_server() const { return standing_; }
  const std::string& host_address() const { return link_.address(); }
  std::uint16_t host_port() const { return there_.port; }
  // What the agents of this job know each other by, once this one knows it.
  const std::optional<LinkCredential>& credential() const { return credential_; }
  // Where the nodes meet, as the user named it.
  std::string endpoint() const { return finder_->endpoint(); }
  // Leave the job; as its host, end it with this. `died`: nobody has decided that the job ends; where others can follow
  // its host they are told nothing, as when it is killed.
  void close(const Verdict& as_host, bool died);

 private:
  HostFinder::Callbacks finder_callbacks();
  NodeInfo own_info();
  std::string ended(const std::string& why) const;
  void look();
  void join_here();
  void join(const HostFinder::There& there);
  void ask_for_secret(const HostFinder::There& there);
  void try_again_later(const std::string& why);
  void retry_at(MonoTime at, const std::string& why);
  void received(const RoundMessage& message);
  void unreachable(const Error& error);
  void link_lost(bool joined, const std::string& reason, TlsFault fault);
  void turned_away(const std::string& reason, TlsFault fault);
  void end(const Verdict& verdict, std::optional<Duration> grace = std::nullopt);
  bool opened(const msg::Open& open);

  boost::asio::io_context& io_;
  const JobSpec& spec_;
  Callbacks callbacks_;
  SteadyClock clock_;
  const std::string agent_id_;
  std::unique_ptr<HostFinder> finder_;
  std::unique_ptr<RoundHosting> hosting_;
  RoundLink link_;
  HostFinder::There there_;  // the host that it has, or had
  std::uint64_t term_ = 0;   // of the host that the link leads to
  LastPlace last_;
  std::string lost_because_;   // of the host that it had
  std::string waits_because_;  // for the last line, should an answer not come in time; empty: nothing failed yet
  bool standing_ = false;      // which was a server of many jobs, and may come back
  bool idle_ = true;           // nothing of a round is left here: it may join
  bool told_ = false;          // the finder knows that the host has answered
  int attempts_ = 0;
  std::optional<LinkCredential> credential_;
  std::optional<MungeAsk> ask_;
  boost::asio::steady_timer retry_;
  Duration retry_after_;
  int turned_away_ = 0;
  MonoTime give_up_at_{};
  bool over_ = false;
};

}  // namespace dtrain::launcher
