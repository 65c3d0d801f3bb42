#pragma once
// Finds the agent that hosts a job's rounds, which may be this agent. RoundJoining asks. The endpoint alone names the
// host (endpoint_finder.h), or nodes vote (succession_finder.h), or etcd keeps its name (etcd_finder.h). Answers come
// by callback on the agent's event loop, perhaps from within find().
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "launcher/finding/host_follower.h"
#include "launcher/job/job_spec.h"
#include "rendezvous/agent_link/round_host.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/say.h"
#include "rendezvous/base/unique_fd.h"
#include "rendezvous/election/host_place.h"
#include "rendezvous/rounds/round_messages.h"

namespace dtrain::launcher {

class HostFinder {
 public:
  // This agent is the host until it is deposed.
  struct Here {
    UniqueFd listener{};     // where the others find it
    std::string address{};   // of `listener`, as the others and the workers are told it
    std::uint64_t term = 0;  // HostPlace's
    MonoTime not_before{};   // until then workers of a round that another host has opened may live
    // RoundHost::Options' of the same names. Empty where nobody can follow this host.
    std::function<bool()> sure{};
    std::function<void(int round, int restarts, int nodes, const VoterSet& voters, std::function<void()> go)>
        before_round{};
    std::optional<RoundSuccession> succession{};
  };
  // Each call of find() gets one of these.
  struct Answers {
    std::function<void(Here)> here;
    std::function<void(const HostPlace&)> there;
    // Not known yet. `why` is one line for the user. find() is called again a while later.
    std::function<void(const std::string& why)> nobody;
    // No later call of find() would find a host either.
    std::function<void(const Error&)> failed;
  };

  virtual ~HostFinder() = default;

  // Takes what nobody else may have, before anything begins. An error ends the job.
  virtual Result<void> open() = 0;
  // Asks for an answer. A call while another is under way changes nothing.
  virtual void find() = 0;
  // Where the nodes meet, for messages.
  virtual std::string endpoint() const = 0;
  // Null: where the host is lost, nobody takes its place.
  virtual HostFollower* follower() = 0;
};

}  // namespace dtrain::launcher
