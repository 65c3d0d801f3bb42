#pragma once
// Where the agent is that hosts a job's rounds, or that this agent is to be it. RoundJoining asks; how it is found out
// differs: by the endpoint alone (endpoint_finder.h), or by an election. Answers come by callback, on the agent's event
// loop, perhaps from within find().
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/job_spec.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"
#include "rendezvous/round_host.h"
#include "rendezvous/round_messages.h"

namespace dtrain::launcher {

class HostFinder {
 public:
  // This agent is the host, until lost() or deposed.
  struct Here {
    UniqueFd listener{};     // where the others find it
    std::string address{};   // of `listener`, as the others and the workers are told it
    std::uint64_t term = 0;  // higher than that of every host before; 0: nobody follows
    MonoTime not_before{};   // until then workers of a round that another host has opened may live
    // Where others may follow; RoundHost::Options'.
    std::function<bool()> sure{};
    std::function<void(int round, int restarts, int nodes, const VoterSet& voters, std::function<void()> go)>
        before_round{};
    std::optional<RoundSuccession> succession{};
  };
  struct There {
    std::vector<std::string> addresses;  // numeric, tried in this order
    std::uint16_t port = 0;
    std::uint64_t term = 0;
  };
  struct Callbacks {
    std::function<void(Here)> host_here;
    std::function<void(const There&)> at;
    // Not known yet, and why: one line for the user. find() is called again, a while later.
    std::function<void(const std::string& why)> nobody;
    // It never will be.
    std::function<void(const Error&)> failed;
    // Somebody else is the host now, or may be: this agent must not open another round.
    std::function<void(const std::string& why)> deposed;
    // No attempt to join may go on: a host that is found now must not hear of this node.
    std::function<void()> withdraw;
    std::function<void(const std::string&)> say;  // one line for the user
  };

  virtual ~HostFinder() = default;

  // Take what nobody else may have, before anything begins. An error ends the job.
  virtual Result<void> open() { return {}; }
  // Answer, once for each call; a call while one is under way changes nothing.
  virtual void find() = 0;
  // The link to the host of this term broke, or never came about: look for another. `stamped`: RoundLink's.
  virtual void lost(std::uint64_t /*term*/, MonoTime /*stamped*/) {}
  // That host has answered.
  virtual void joined(const There& /*host*/) {}
  // It says that this round is settled (rendezvous/host_lease.h).
  virtual void settled(int /*round*/) {}
  // What this node has to say to it in Join; `own_address`: of the connection, may be empty.
  virtual void complete(const std::string& /*own_address*/, NodeInfo& /*node*/) {}
  // A round has begun that this node is in.
  virtual void opened(const msg::Open& /*open*/) {}
  // The user stops this node; its host is told next.
  virtual void leaves() {}
  // Whether the job can go on without its host.
  virtual bool survives_host() const { return false; }
  // As the host: by then this node's workers must be dead, unless it is put off. None: nobody can follow.
  virtual std::optional<MonoTime> fenced_at() const { return std::nullopt; }
  // Why not, or what is missing for it; may be empty.
  virtual std::string missing() const { return ""; }
  // For messages: where the nodes meet.
  virtual std::string endpoint() const = 0;
  // This agent leaves the job; nothing is called after this. `as_killed`: the others are to find another host, in the
  // time that this takes when an agent is killed.
  virtual void close(bool /*as_killed*/) {}
};

// The one for this job.
std::unique_ptr<HostFinder> make_host_finder(boost::asio::io_context& io, const JobSpec& spec,
                                             const std::string& agent_id, HostFinder::Callbacks callbacks);

}  // namespace dtrain::launcher
