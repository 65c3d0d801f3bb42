#pragma once
// Who is in the job, and in which round: one job's membership as a pure machine, step(event, now) -> actions. It runs
// in the agent that hosts the job's rounds; RoundHost carries the actions out. test/sim runs it by the thousand.
//
//   gathering --enough nodes--> running --all workers ended well--> ended (success)
//       |                         |  ^
//    too late          failure,   |  |  nothing of the round is left anywhere,
//       v              lost node, |  |  enough nodes, restarts left: next round
//     ended            new node   v  |
//                               stopping --else--> ended (the first cause is the reason)
//                                  |
//                                  +--too few nodes, others may come--> gathering
//
// The first cause is that of the round's end; but a failure that comes before a loss, or before a node that leaves, is
// known to have left, is taken for its consequence. So is one whose worker blames another rank: when the node of that
// rank, or any node with a failure of its own, says what happened there, that is the cause.
//
// Invariants: one round at a time; a round opens only when no node that is connected has anything left of the one
// before (a lost node has stopped its workers by itself, or its guard has; how long that takes across hosts is waited
// for); node ranks and ranks are dense; a node that stays keeps its place in the order, so rank 0 goes to one that was
// there before.
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/base/clock.h"
#include "rendezvous/rounds/refusals.h"
#include "rendezvous/rounds/round_members.h"
#include "rendezvous/rounds/round_messages.h"
#include "rendezvous/rounds/round_patience.h"

namespace dtrain {

inline constexpr int kOwnFailure = 125;  // docs/exit-codes.md

// What a host that follows another one knows of the rounds before; members that join may know more.
struct Takeover {
  int round = -1;
  int restarts = 0;
  int nodes = 0;          // of that round
  MonoTime not_before{};  // until then workers of it may live
};

struct RoundSettings {
  std::string job;
  // agent_id of the agent that hosts the rounds: without it there is no job. Empty: a standing server does.
  std::string host_agent;
  std::uint64_t term = 0;  // of this host; that of a standing server rises above what nodes have heard
  bool fixed_ranks = false;
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;
  std::string master_addr;   // where the workers' store is; empty: node 0's address
  bool real_master = false;  // workers of other hosts may come to it by themselves
  int master_port = 0;
  Duration join_timeout = std::chrono::seconds(600);      // for min_nodes to come
  Duration last_call_timeout = std::chrono::seconds(30);  // after that, for more of them to come
  // With too few nodes after a loss: wait for others as at the beginning, do not end.
  bool awaits_others = false;
  // The nodes may choose another host if this one is lost.
  bool succession = false;
  // After a loss or another host: with enough nodes, for the rest of those of the last round.
  Duration regather_timeout = std::chrono::seconds(3);
  Takeover after{};
  // Workers of rounds that this host has not heard of may live until then.
  MonoTime unknown_not_before{};
  // All nodes must have the same pulse.
  NodeTimes times{};
  // A node that has not stopped its workers so long after the time it may need is given up: its agent hangs.
  Duration stop_margin = std::chrono::seconds(10);
  // How people call the nodes of a job with fixed ranks, by node rank; empty: "node 3".
  std::vector<std::string> names{};
  // What people are told when the wait for nodes was in vain, as the end of a line.
  std::string in_vain{};
};

// ---- what happened -------------------------------------------------------------------------------------------------
namespace round_event {
struct Said {
  MemberId member;
  RoundMessage message;  // of the kinds that agents send
};
struct Gone {
  MemberId member;
  MonoTime fenced_at{};  // its node, if it lives, has no workers from then on
};                       // its connection is closed
struct Tick {};          // deadline() is over
}  // namespace round_event
using RoundEvent = std::variant<round_event::Said, round_event::Gone, round_event::Tick>;

// ---- what to do ----------------------------------------------------------------------------------------------------
namespace round_action {
struct Send {
  MemberId member;
  RoundMessage message;
};
struct FreshStore {};  // before the Open messages that follow
// To the user of the host.
struct Tell {
  std::string line;
};
}  // namespace round_action
using RoundAction = std::variant<round_action::Send, round_action::FreshStore, round_action::Tell>;

enum class RoundPhase { gathering, running, stopping, ended };
inline constexpr int kRoundPhases = 4;
const char* to_string(RoundPhase phase);
// "2:4", "3".
std::string node_range(int min, int max);

class RoundCore {
 public:
  explicit RoundCore(RoundSettings settings);

  // Take in one event. Never fails: what means nothing in this phase gives no action.
  std::vector<RoundAction> step(const RoundEvent& event, MonoTime now);
  // When Tick is due; none: never.
  std::optional<MonoTime> deadline() const;
  // End the job now, whatever it is doing: the host leaves.
  std::vector<RoundAction> close(const Verdict& verdict);

  // Somebody was turned away before it could join. Returns the line for the user of the host; empty: none.
  std::string turned_away(const std::string& line) { return refusals_.add(line); }

  RoundPhase phase() const { return phase_; }
  int round() const { return round_; }
  std::uint64_t term() const { return term_; }
  int restarts() const { return restarts_; }
  std::size_t members() const { return members_.size(); }
  // Of the present round.
  const Electorate& electorate() const { return electorate_; }
  // For `dtrain status`.
  JobFacts facts(MonoTime now) const;
  // How it has ended; empty while it has not.
  const std::string& ended_because() const { return ended_because_; }
  // One line for people: phase, round, nodes.
  std::string describe() const;

 private:
  using Actions = std::vector<RoundAction>;

  void joined(MemberId id, const NodeInfo& info, MonoTime now, Actions& out);
  void learn(const LastPlace& last);
  // Why a node cannot be one of the job, ever, in words for the node and for the host.
  struct Objection {
    std::string to_node, to_host;
  };
  std::optional<Objection> objection(const NodeInfo& info) const;
  std::optional<Objection> objection_to_rank(int rank) const;
  void sent_away(const NodeInfo& info, const std::string& why, Actions& out);
  bool hopeless() const;
  void give_up(Actions& out);
  void failed(MemberId id, const msg::Failed& m, MonoTime now, Actions& out);
  bool explains(const RoundMember& m, const msg::Failed& said) const;
  void blame_who_left(Actions& out);
  void over(MemberId id, const msg::Over& m, MonoTime now, Actions& out);
  void leaving(MemberId id, const msg::Leaving& m, MonoTime now, Actions& out);
  void gone(MemberId id, MonoTime fenced_at, MonoTime now, Actions& out);
  void lose(MemberId id, MonoTime fenced_at, MonoTime now, Actions& out);
  void tick(MonoTime now, Actions& out);

  void make_room(MonoTime now, Actions& out);
  msg::Waiting not_yet(const RoundMember& m, MonoTime now);
  void gather(std::optional<MemberId> newcomer, MonoTime now, Actions& out);
  void regather(MonoTime now, Actions& out);
  Verdict nobody_came() const;
  bool caused_failure(const RoundMember& m) const;
  void open_round(Actions& out);
  void place(const std::vector<MemberId>& chosen, Actions& out);
  Electorate electorate_of(const std::vector<MemberId>& chosen) const;
  void begin_stop(MemberId origin, const Verdict& why, int signal, MonoTime now, Actions& out);
  void maybe_over(MonoTime now, Actions& out);
  void end(const Verdict& verdict, Actions& out);
  void tell_waiting(MonoTime now, Actions& out);
  msg::Waiting progress(MonoTime now) const;
  void let_go(MemberId id, Actions& out);

  // round_facts.cc: what is told, and remembered, of decisions.
  void decide(std::string text) { decided_.add(std::move(text), now_); }
  std::string opening_reason(std::size_t nodes) const;
  std::string missing() const;
  std::string here() const;

  std::vector<MemberId> eligible() const;  // for the next round, in the order of their node ranks
  std::vector<MemberId> next_to_each_other(const std::vector<MemberId>& ids) const;
  bool standing() const { return settings_.host_agent.empty(); }
  bool hosted() const;
  bool enough() const;
  Duration longest_stop() const;
  std::string name(const RoundMember& m) const;
  Verdict why_it_leaves(const RoundMember& m, int signal) const;

  const RoundSettings settings_;
  RoundPhase phase_ = RoundPhase::gathering;
  RoundMembers members_;
  std::set<int> refused_ranks_;  // in a static job: their nodes have come, and were refused for good
  Refusals refusals_;
  int told_ = 0;                       // members when everybody was last told of the progress
  std::optional<MonoTime> tell_at_{};  // when they will be, although few have come
  std::uint64_t term_ = 0;
  int round_ = -1;
  int latest_ = -1;  // round that any node has been in, of another host too
  int restarts_ = 0;
  int nodes_ = 0;         // of the last round
  bool again_ = false;    // these are awaited, more than others
  bool follows_ = false;  // another host, since whose last round none has opened
  std::optional<MonoTime> join_deadline_;
  std::optional<MonoTime> last_call_;
  MonoTime stop_deadline_{};
  MonoTime fenced_at_{};  // until then a node that was lost may still have workers of the present round
  // Why the round is being stopped: a failure, a lost or leaving node (these end the job if it cannot go on), or a new
  // node. The first cause is the one that is told.
  std::optional<Verdict> cause_;
  int blamed_ = msg::kNobody;  // by the worker whose failure is the cause
  std::string blamed_for_;     // what that rank did
  int left_ = msg::kNobody;    // the last rank that ended with 0 before the round was stopped, else the first one after
  RoundPatience patience_;
  std::optional<MonoTime> room_at_;  // when a node that waits may be taken into a round that runs
  std::string growth_;               // the reason of a stop that makes room for a new node
  std::string ended_because_;
  bool useless_ = false;  // a restart would fail in the same way
  Electorate electorate_;
  DecisionLog decided_;
  MonoTime now_{};          // of the last event
  MonoTime phase_since_{};  // when this phase began
  bool some_ok_ = false;    // the workers of some node have ended well in this round, though the node may have gone
};

}  // namespace dtrain
