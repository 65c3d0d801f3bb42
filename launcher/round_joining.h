#pragma once
// How an agent becomes one of a job's several nodes: it looks for the agent that hosts the rounds, or becomes that
// agent itself (the first node of a static job, else whoever binds the port first), and then holds a link to it. Until
// it has joined it tries again, for as long as the user lets it. On the agent's event loop.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/job_spec.h"
#include "launcher/round_hosting.h"
#include "rendezvous/base/clock.h"
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
    std::function<void(const std::string&)> say;  // one line for the user
  };

  RoundJoining(boost::asio::io_context& io, const JobSpec& spec, Callbacks callbacks);

  // Take the port if only this node may have it; begin to join. No callback but `say` from within.
  Result<void> open();
  void send(const RoundMessage& message) { link_.send(message); }
  // Null: another agent hosts the job, at host_address().
  RoundHosting* hosting() { return hosting_.get(); }
  const std::string& host_address() const { return link_.address(); }
  // Leave the job; as its host, end it with this.
  void close(const Verdict& as_host);

 private:
  Result<void> host();
  NodeInfo own_info() const;
  void try_to_join();
  void try_again_later(const std::string& why);
  void received(const RoundMessage& message);
  void unreachable(const Error& error);
  void link_lost(bool joined, const std::string& reason, TlsFault fault);
  void turned_away(const std::string& reason, TlsFault fault);
  void end(const Verdict& verdict, std::optional<Duration> grace = std::nullopt);
  std::string endpoint() const;
  bool may_host() const { return spec_.nodes.node_rank < 0 && !spec_.nodes.address.empty(); }

  boost::asio::io_context& io_;
  const JobSpec& spec_;
  Callbacks callbacks_;
  SteadyClock clock_;
  const std::string agent_id_;
  std::unique_ptr<RoundHosting> hosting_;
  RoundLink link_;
  boost::asio::steady_timer retry_;
  Duration retry_after_;
  int turned_away_ = 0;
  MonoTime give_up_at_{};
  bool over_ = false;
};

}  // namespace dtrain::launcher
