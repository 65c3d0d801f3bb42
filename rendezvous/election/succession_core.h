#pragma once
// Who hosts a job after its host is lost, where no third party can say it: a majority of the last round's nodes. Pure.
//
//   following --the host is lost--> seeking --a majority votes for it--> leading --its lease ends (host_lease.h)--+
//       ^                            |   ^                                                                       |
//       +------ a host is found -----+   +-----------------------------------------------------------------------+
//
// Voters are the last round's nodes. The first few of them by node rank are candidates: everybody knows where these
// listen, and asks them while it seeks. A candidate that hears of enough voters proposes itself to them, with a term
// higher than any it knows; the first one at once, the others a while later. A voter votes once in a term, for nobody
// whose last round is older than its own, and only when the host that it lost has been silent for so long that its
// workers have been told to stop. From then on it joins no host of a lower term, and says how long ago it took the last
// stamp of any host: so the one that is chosen knows until when another may have thought itself the host, and opens no
// round before all workers of that one are dead.
//
// A round that is not settled yet has two sets of voters, its own and the last settled one's; a candidate needs a
// majority of each.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rendezvous/base/clock.h"
#include "rendezvous/election/host_lease.h"
#include "rendezvous/election/host_place.h"
#include "rendezvous/rounds/link_pulse.h"
#include "rendezvous/rounds/round_messages.h"

namespace dtrain {

struct SuccessionSettings {
  PulseSettings pulse;
  VoterId self = 0;

  // From the last stamp that came back to a host to the last of its workers.
  Duration fence() const { return PulseSettings::on_any_clock(pulse.stop_after() + pulse.fenced_after()); }
  Duration stagger() const { return pulse.interval / 5; }
};

namespace succession_event {
struct Find {};     // where is the host?
struct Following {  // the host of this place has answered this node's Join
  HostPlace host;
};
struct Opened {  // a round has begun that this node is in
  std::uint64_t term = 0;
  int round = 0;
  Electorate electorate;
};
struct Settled {  // the host says so
  int round = 0;
};
struct Lost {  // the link to the host of this term, or did not come about
  std::uint64_t term = 0;
  MonoTime stamped{};  // when its last stamp came; none: never
};
struct Seeker {  // a node that has lost its host is connected to this candidate, or no more
  msg::Seek seek;
  bool here = true;
};
struct Asked {  // a candidate wants this node's vote
  VoterId candidate = 0;
  msg::Ballot ballot;
};
struct Voted {  // for this candidate, or not
  VoterId voter = 0;
  msg::Vote vote;
};
struct Found {  // a candidate knows this host
  HostPlace host;
  int settled = -1;
};
// Of the host.
struct Echoed {
  VoterId voter = 0;
  MonoTime stamp{};
  int round = -1;
};
struct Opening {
  int round = 0;
  VoterSet voters;
};
struct Left {  // leaves the job: it will never vote again
  VoterId voter = 0;
};
struct Hosts {};  // this agent hosts the job from its beginning
// Of any.
struct Leaves {};  // this node leaves the job, and is about to tell the host so
struct Tick {};
}  // namespace succession_event
using SuccessionEvent =
    std::variant<succession_event::Find, succession_event::Following, succession_event::Opened,
                 succession_event::Settled, succession_event::Lost, succession_event::Seeker, succession_event::Asked,
                 succession_event::Voted, succession_event::Found, succession_event::Echoed, succession_event::Opening,
                 succession_event::Left, succession_event::Hosts, succession_event::Leaves, succession_event::Tick>;

namespace succession_action {
struct There {
  HostPlace host;
};
struct Here {
  std::uint64_t term = 0;
  MonoTime not_before{};  // for the first round
};
struct Nobody {
  std::string why;
};
struct Withdraw {};  // end every attempt to join a host
struct Seek {        // be connected to these too until StopSeeking, as well as can be
  std::vector<Candidate> candidates;
};
struct StopSeeking {};
struct Propose {  // to this seeker; 0: to all
  VoterId to = 0;
  msg::Ballot ballot;
};
struct Answer {  // to the candidate
  VoterId candidate = 0;
  msg::Vote vote;
};
struct Open {};  // the round of the last Opening may open
struct Doubt {};
struct Sure {};
struct Deposed {
  std::string why;
};
}  // namespace succession_action
using SuccessionAction =
    std::variant<succession_action::There, succession_action::Here, succession_action::Nobody,
                 succession_action::Withdraw, succession_action::Seek, succession_action::StopSeeking,
                 succession_action::Propose, succession_action::Answer, succession_action::Open,
                 succession_action::Doubt, succession_action::Sure, succession_action::Deposed>;

class SuccessionCore {
 public:
  enum class Phase { idle, following, seeking, leading };

  explicit SuccessionCore(const SuccessionSettings& settings)
      : settings_(settings), lease_(settings.pulse, settings.self) {}

  std::vector<SuccessionAction> step(const SuccessionEvent& event, MonoTime now);
  // When Tick is due; none: never.
  std::optional<MonoTime> deadline() const;

  Phase phase() const { return phase_; }
  // Whether those that are left may choose another host if the present one goes.
  bool can_follow() const;
  // Why not, or what this node lacks for it: for people; may be empty.
  std::string missing() const;
  // Of a host: whether pings may be answered.
  bool sure(MonoTime now) const { return phase_ == Phase::leading && lease_.sure(now); }
  // When a host's workers must be dead if the host hears no more of its nodes. None: no other host can follow it.
  std::optional<MonoTime> fenced_at() const;
  int settled_round() const { return lease_.settled_round(); }
  std::vector<VoterSet> earlier() const { return lease_.earlier(); }
  std::uint64_t term() const { return term_; }
  const HostPlace& host() const { return host_; }
  // The last round that this node was in, and what a majority is needed of to choose its next host.
  std::pair<std::uint64_t, int> last() const { return {last_term_, last_round_}; }
  std::vector<VoterSet> needed() const;
  // What this node says to a candidate, and what a candidate answers if it has a host.
  msg::Seek seek() const;
  std::optional<msg::HostAt> host_at() const;
  // Whether this node may become the host. How many nodes have a vote.
  bool may_stand() const { return candidate_index() >= 0; }
  std::size_t voters() const { return electorate_.voters.size(); }

 private:
  using Actions = std::vector<SuccessionAction>;
  struct Pending {
    VoterId candidate = 0;
    msg::Ballot ballot;
  };

  void on(const succession_event::Find& event, MonoTime now, Actions& out);
  void on(const succession_event::Following& event, MonoTime now, Actions& out);
  void on(const succession_event::Opened& event, MonoTime now, Actions& out);
  void on(const succession_event::Settled& event, MonoTime now, Actions& out);
  void on(const succession_event::Lost& event, MonoTime now, Actions& out);
  void on(const succession_event::Seeker& event, MonoTime now, Actions& out);
  void on(const succession_event::Asked& event, MonoTime now, Actions& out);
  void on(const succession_event::Voted& event, MonoTime now, Actions& out);
  void on(const succession_event::Found& event, MonoTime now, Actions& out);
  void on(const succession_event::Echoed& event, MonoTime now, Actions& out);
  void on(const succession_event::Opening& event, MonoTime now, Actions& out);
  void on(const succession_event::Left& event, MonoTime now, Actions& out);
  void on(const succession_event::Hosts& event, MonoTime now, Actions& out);
  void on(const succession_event::Leaves& event, MonoTime now, Actions& out);
  void on(const succession_event::Tick& event, MonoTime now, Actions& out);

  void begin_seeking(MonoTime now, Actions& out);
  void stop_seeking(Actions& out);
  void vote(const Pending& pending, MonoTime now, Actions& out);
  void vote_later(MonoTime now, Actions& out);
  void campaign(MonoTime now, Actions& out);
  void end_campaign(MonoTime again_at);
  void maybe_won(MonoTime now, Actions& out);
  void lead(std::uint64_t term);
  void leading_tick(MonoTime now, Actions& out);
  void maybe_open(MonoTime now, Actions& out);
  void resign(MonoTime now, Actions& out);
  bool enough(const std::set<VoterId>& voters) const;
  std::set<VoterId> reachable() const;
  // The first one is 0; -1: this node is none.
  int candidate_index() const;
  std::uint64_t promised() const { return campaign_until_ ? ballot_.term : promised_; }
  bool votes() const;
  MonoTime too_late() const;

  const SuccessionSettings settings_;
  Phase phase_ = Phase::idle;
  HostPlace host_;              // the last one
  std::uint64_t seen_ = 0;      // the highest term
  std::uint64_t voted_ = 0;     // the last term in which this node has voted
  std::uint64_t promised_ = 0;  // the last one in which it has voted for another: it joins no host of a lower one,
  std::pair<std::uint64_t, int> promised_for_{};  // unless that has settled a later round than the candidate was in
  std::uint64_t last_term_ = 0;
  int last_round_ = -1;  // that this node was in
  Electorate electorate_;
  bool settled_ = false;
  bool leaves_ = false;
  MonoTime stamped_{};      // when it took the last stamp of any host
  MonoTime may_vote_at_{};  // while it seeks
  std::map<VoterId, Pending> pending_;
  // A candidate.
  struct Seekers {
    int connections = 0;
    std::pair<std::uint64_t, int> last;
  };
  std::map<VoterId, Seekers> seekers_;
  MonoTime campaign_at_{};
  std::optional<MonoTime> campaign_until_;  // it proposes itself
  msg::Ballot ballot_;
  std::map<VoterId, MonoTime> voters_;  // for it: and until when they may have taken stamps of others
  // The host.
  std::uint64_t term_ = 0;
  HostLease lease_;
  std::optional<succession_event::Opening> opening_;
  bool doubt_ = false;
};

}  // namespace dtrain
