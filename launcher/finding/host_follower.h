#pragma once
// The part of a host finder that can find another host when the first one is lost. RoundJoining tells it what happens
// on the link to the host.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>

#include "rendezvous/base/clock.h"
#include "rendezvous/election/host_place.h"
#include "rendezvous/rounds/round_messages.h"

namespace dtrain::launcher {

namespace host_news {
struct Joined {  // the host of this place has answered
  HostPlace host;
};
struct Opened {  // a round has begun that this node is in
  msg::Open open;
};
struct Settled {  // the host says that this round is settled (rendezvous/election/host_lease.h)
  int round = 0;
};
struct Lost {  // the link to the host of this term broke, or never came about; a find() follows
  std::uint64_t term = 0;
  MonoTime stamped{};  // RoundLink::stamped()
};
struct Leaves {};  // the user stops this node; the host is told next
}  // namespace host_news
using HostNews =
    std::variant<host_news::Joined, host_news::Opened, host_news::Settled, host_news::Lost, host_news::Leaves>;

class HostFollower {
 public:
  struct Callbacks {
    // Another agent hosts the job now, or may do so: this agent must not open another round.
    std::function<void(const std::string& why)> deposed;
    // Every attempt to join must end: a host that is found now must not hear of this node.
    std::function<void()> withdraw;
  };

  virtual ~HostFollower() = default;

  virtual void hear(const HostNews& news) = 0;
  // Adds what this node has to say in Join. `own_address` is that of the connection; it may be empty.
  virtual void complete(const std::string& own_address, NodeInfo& node) = 0;
  // Whether the job can go on without its host.
  virtual bool survives_host() const = 0;
  // Why the job cannot go on without its host, or what is missing for that. May be empty.
  virtual std::string missing() const = 0;
  // When this agent is the host: its workers must be dead by then, unless the time is put off. None: nobody can follow.
  virtual std::optional<MonoTime> fenced_at() const = 0;
  // This agent leaves the job, and nothing is called after this. `as_killed`: the others are to find another host, in
  // the time that this takes after a kill of the agent.
  virtual void close(bool as_killed) = 0;
};

}  // namespace dtrain::launcher
