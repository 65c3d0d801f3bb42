#pragma once
// When an agent looks for its job's host, dials it, waits before it tries again, and gives up. Pure: step(event, scene,
// now) -> actions. RoundJoining carries the actions out; test/sim joins simulated jobs with it.
//
//                     +------------- the pause is over -------------+
//                     v                                             |
//   start --Begin--> finding --Found--> dialing --no answer--> waiting --the time is up--> over
//                     ^                   |
//                     |                   | a round opens
//                     |                   v
//                     +--Begin-- parting <--LinkLost-- in a round
//
// An agent that loses its host before a round has opened parts from it too. While it parts, its workers end; Begin
// follows when none is left. From finding, dialing and waiting the agent may give up: the host refuses it, or turns it
// away again and again, or nobody can host the job any more.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rendezvous/base/clock.h"
#include "rendezvous/election/host_place.h"
#include "rendezvous/rounds/round_messages.h"

namespace dtrain::launcher {

struct JoinSettings {
  Duration timeout{};         // --rdzv-conf join_timeout
  bool across_hosts = false;  // else all nodes are on this host
  bool rejoin = false;        // an agent that loses its host looks for it again
  bool fixed_rank = false;    // the user numbered the nodes
  Duration kill_grace{};      // across hosts: how long workers may live on after their host is lost
  std::string only_here{};    // ends a line about nodes that have not come
};

// What is true around the core when an event arrives.
struct JoinScene {
  bool hosts = false;      // this agent is the host
  bool survives = false;   // another agent can host the job if its host is lost
  std::string endpoint{};  // where the nodes meet, for messages
  std::string missing{};   // why no other agent can be the host; may be empty
};

namespace join_event {
struct Begin {};  // nothing of a round is left on this node, so it may join
struct Found {    // the host is there, or is this agent
  HostPlace host;
  bool here = false;
};
struct Nobody {  // no host is known yet
  std::string why;
};
struct NoHost {  // there will never be a host
  std::string why;
};
struct Withdraw {};   // a host that is found now must not hear of this node
struct Unreachable {  // nobody listens there, or the network does not lead there
  std::string why;
  bool refused = false;  // the machine is there, and nobody listens
};
struct TurnedAway {    // the peer ended the connection before it said anything of this protocol
  std::string reason;  // may be empty
  bool final = false;  // this node itself found the fault, so the next attempt would end the same way
  bool clear = false;  // the peer does not speak TLS badly, it speaks none
};
struct Refused {  // the host says no
  std::string reason;
  bool try_again = false;
};
struct Standing {};  // the host is a server of many jobs
struct Opened {      // a round has begun that this node is in
  std::uint64_t term = 0;
};
struct LinkLost {  // the link to a host that had answered
  std::string reason;
  // By the time this agent saw that, the others may have gone on without it. A closed link, or nodes that were not
  // heard, are no more than what it finds then.
  bool did_not_run = false;
};
struct Failed {  // this node cannot do what joining needs
  std::string why;
};
struct Tick {};
}  // namespace join_event
using JoinEvent =
    std::variant<join_event::Begin, join_event::Found, join_event::Nobody, join_event::NoHost, join_event::Withdraw,
                 join_event::Unreachable, join_event::TurnedAway, join_event::Refused, join_event::Standing,
                 join_event::Opened, join_event::LinkLost, join_event::Failed, join_event::Tick>;

namespace join_action {
struct Find {};  // ask for the host: Found, Nobody or NoHost answers
struct Dial {    // connect to the host and say Join
  HostPlace host;
  bool here = false;  // the host is this agent
};
struct HangUp {};  // end the attempt that is under way
struct Wait {      // for people: nobody to join yet
  std::string why;
  MonoTime until{};  // the latest end of it
};
struct Part {  // the host is gone, the job may not be: end the workers, then Begin
  std::string reason;
  Duration grace{};  // for the workers: the others may soon go on without this node
};
struct GiveUp {
  Verdict verdict;
  std::optional<Duration> grace{};  // Part's
};
struct GiveUpPort {  // the process that holds the endpoint's port is not this job's host: look which one it is
  std::string reason;
};
}  // namespace join_action
using JoinAction = std::variant<join_action::Find, join_action::Dial, join_action::HangUp, join_action::Wait,
                                join_action::Part, join_action::GiveUp, join_action::GiveUpPort>;

class JoinCore {
 public:
  enum class Phase { start, finding, dialing, waiting, in_round, parting, over };

  explicit JoinCore(JoinSettings settings) : settings_(std::move(settings)) {}

  std::vector<JoinAction> step(const JoinEvent& event, const JoinScene& scene, MonoTime now);
  // When Tick is due. None: never.
  std::optional<MonoTime> deadline() const;
  // The agent leaves the job: no event changes anything after this.
  void close() { phase_ = Phase::over; }

  Phase phase() const { return phase_; }
  bool over() const { return phase_ == Phase::over; }
  // The agent has lost its host, and no round has opened since.
  bool hostless() const { return !lost_because_.empty(); }
  // A message of such a host comes too late: another has followed it.
  bool outdated(std::uint64_t term) const { return term < last_term_; }
  bool at_server() const { return standing_; }
  // The host that the agent has, or had.
  const HostPlace& host() const { return host_; }

 private:
  using Actions = std::vector<JoinAction>;
  struct At {
    const JoinScene& scene;
    MonoTime now;
    Actions& out;
  };

  void on(const join_event::Begin& event, const At& at);
  void on(const join_event::Found& event, const At& at);
  void on(const join_event::Nobody& event, const At& at);
  void on(const join_event::NoHost& event, const At& at);
  void on(const join_event::Withdraw& event, const At& at);
  void on(const join_event::Unreachable& event, const At& at);
  void on(const join_event::TurnedAway& event, const At& at);
  void on(const join_event::Refused& event, const At& at);
  void on(const join_event::Standing& event, const At& at);
  void on(const join_event::Opened& event, const At& at);
  void on(const join_event::LinkLost& event, const At& at);
  void on(const join_event::Failed& event, const At& at);
  void on(const join_event::Tick& event, const At& at);

  bool may_join() const { return phase_ == Phase::finding || phase_ == Phase::dialing || phase_ == Phase::waiting; }
  void look(const At& at);
  void dial(bool here, const At& at);
  void wait(const std::string& why, const At& at);
  void time_up(const std::string& why, const At& at);
  void give_up(JobEnd how, const std::string& reason, const At& at);
  std::string lost_and(const std::string& why, const At& at) const;

  const JoinSettings settings_;
  Phase phase_ = Phase::start;
  HostPlace host_;
  std::uint64_t last_term_ = 0;  // of the last round's host
  bool standing_ = false;        // the host is a server of many jobs, which may be started again
  std::string lost_because_;     // why the host is gone
  std::string waits_because_;    // why the last attempt came to nothing; empty: there was none
  Duration pause_{};             // of the next wait
  MonoTime retry_at_{};          // while waiting
  MonoTime give_up_at_{};
  int turned_away_ = 0;
};

}  // namespace dtrain::launcher
