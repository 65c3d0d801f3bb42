#pragma once
// A whole job in one process: RoundCore at its host, JoinCore and GroupCore at every node, on a seeded clock and
// network, with processes, guards, faults and users that are drawn by the seed. Every step is checked against what must
// hold; a breach throws Broken. The cores are the real ones; RoundLink's and RoundHost's few rules are repeated here.
// Faults happen for a while (safety), then everything is healed and the job has to end (liveness).
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "launcher/hosting/join_core.h"
#include "launcher/job/group_core.h"
#include "rendezvous/rounds/link_pulse.h"
#include "rendezvous/rounds/round_core.h"
#include "test/sim/node_clock.h"

namespace dtrain::sim {

struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What a worker does by itself. One that succeeds needs all others of its round, as in training: without them it waits.
enum class Fate { succeeds, fails, never_starts, ignores_term, leaves_daemon, unkillable };

struct Process {
  int number = 0;
  int round = 0;
  int local_rank = 0;  // -1: left behind by a worker
  Fate fate = Fate::succeeds;
  bool told = false;
};

struct Agent {
  int node = 0;  // the machine; an agent that is started again there is another agent
  NodeClock clock;
  NodeInfo info;
  std::optional<launcher::GroupCore> core;
  bool alive = false;
  bool hung = false;
  bool finished = false;
  bool troubled = false;  // a fault was here, so it may be given up
  int slow = 1;
  std::deque<std::function<void()>> backlog;  // while it hangs
  // Its link to the host.
  std::optional<launcher::JoinCore> joining;
  int join_timer = 0;  // generation
  MemberId link = 0;
  bool joined = false;                          // the host has answered
  bool in_round = false;                        // it may have workers
  bool up_silent = false, down_silent = false;  // it is cut off
  bool over = false;                            // nothing more is fed from there
  std::optional<LinkPulse> pulse;
  // Its workers, and its guard.
  std::optional<NodePlace> place;
  std::vector<Process> processes;
  int to_spawn = 0;
  bool spawn_broken = false;
  bool empty_told = true;
  bool output_open = false;
  MonoTime guard_sent{};
  int timer = 0;  // generation
  int started_round = -1;
  bool workers_ok = true;  // of started_round
  std::optional<MonoTime> stopping_since;
  bool user_stop = false;        // the user has stopped this node
  std::vector<MonoTime> losses;  // that stopped a round, on the host's clock
  std::optional<launcher::Outcome> outcome;
};

// An ordered stream. Either way may fall silent: what is under way then waits, as TCP would send it again.
struct Link {
  Agent* agent = nullptr;
  bool open = true;       // at the agent's end
  bool host_open = true;  // at the host's
  MonoTime up{}, down{};  // of the last delivery
  MonoTime heard{};       // when the host took the last one, on its clock
  bool up_silent = false, down_silent = false;
  std::vector<std::function<void()>> up_held, down_held;
  std::optional<LinkSilence> silence;
  std::optional<msg::Join> join;  // until the agent has answered the welcome
};

// What the host's events make of the membership, kept beside RoundCore.
struct Shadow {
  Agent* agent = nullptr;
  int rank = -1;
  bool over = false, ok = false, leaving = false;
};

struct Options {
  bool faults = true;
};

struct Tally {
  int rounds = 0, restarts = 0, agents = 0, faults = 0, messages = 0;
  int rejoins = 0, waits = 0;  // nodes that came back; for others, after a loss
  int growths = 0;             // rounds that were stopped for a newcomer
  std::set<std::string> ends;
};

class World {
 public:
  World(std::uint64_t seed, Options options);
  void run();
  const std::string& trace() const { return trace_; }
  const Tally& tally() const { return tally_; }
  bool succeeded() const { return verdict_ && verdict_->how == JobEnd::success; }
  std::string describe() const;

 private:
  // ---- job_world.cc: time, chance, faults
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  Duration between(Duration low, Duration high);
  void at(MonoTime when, std::function<void()> what);
  void on(Agent& agent, MonoTime when, std::function<void()> what);
  MonoTime clock(const Agent& agent) const { return agent.clock.at(now_); }
  MonoTime host_clock() const { return clock(agents_.front()); }
  void require(bool holds, const std::string& what) const;
  void note(const std::string& line);
  Agent& add_agent(int node);
  void plan_faults();
  void one_fault();
  void hang(Agent& a);
  void resume(Agent& a);
  void crash(Agent& a, bool machine);
  void partition(Agent& a);
  void heal(Agent& a);
  void heal_all();
  Agent* any_alive();
  bool all_finished() const;
  void check_end() const;

  // ---- job_link.cc: connections
  void begin_to_join(Agent& a) { joins(a, launcher::join_event::Begin{}); }
  void joins(Agent& a, const launcher::JoinEvent& event);
  void arm_joining(Agent& a);
  void carry_out(Agent& a, const launcher::JoinAction& action);
  void dial(Agent& a);
  void lost_link(Agent& a, const std::string& reason);
  void ends_joining(Agent& a, const Verdict& verdict, std::optional<Duration> grace);
  void say(Agent& a, RoundMessage message);
  void tell(MemberId id, RoundMessage message);
  void deliver_up(MemberId id, std::function<void()> what);
  void deliver_down(MemberId id, std::function<void()> what);
  void close_from_agent(Agent& a);
  void close_from_host(MemberId id);
  void cut(Agent& a);
  void release(Link& link);
  void received(Agent& a, const RoundMessage& message);
  void beat(Agent& a);
  void watch_silence(MemberId id);

  // ---- job_host.cc: RoundCore and what must hold of it
  void hear(MemberId id, const RoundMessage& message);
  void gone(MemberId id);
  void step(const RoundEvent& event);
  void arm_host();
  void grew();
  void perform(const std::vector<RoundAction>& actions, RoundPhase before);
  void shadow_before(const RoundEvent& event);
  void shadow_said(Shadow& s, const RoundMessage& message);
  void shadow_gone(MemberId id);
  void note_cause(JobEnd how, int rank, int exit_code);
  bool caused_failure(const Shadow& s) const;
  void regathered();
  void dismissed(MemberId id, const Verdict& verdict);
  void check_opened(const std::vector<std::pair<MemberId, NodePlace>>& opened);
  void check_order(const std::vector<const Agent*>& order) const;
  void check_verdict(const Verdict& verdict, RoundPhase before);
  void check_phase() const;
  bool enough() const;
  int eligible() const;
  void close_host(const launcher::Outcome& outcome);

  // ---- job_node.cc: GroupCore, the guard, the workers
  void feed(Agent& a, const launcher::GroupEvent& event);
  void carry_out(Agent& a, const launcher::GroupAction& action);
  void start_round(Agent& a, const launcher::action::StartRound& round);
  void spawn_one(Agent& a);
  void works(Agent& a, int number);
  void ends(Agent& a, int number, const launcher::ExitStatus& status);
  void signal(Agent& a, int signal, bool rest);
  void kill(Agent& a);
  void guard_says(Agent& a, const launcher::GroupEvent& event);
  void check_rest(Agent& a);
  void check_empty(Agent& a);
  void finish(Agent& a, const launcher::Outcome& outcome);
  void check_stop_time(Agent& a);
  Process* find(Agent& a, int number);
  Fate random_fate();

  friend struct Scenario;
  struct Timed {
    MonoTime when;
    std::uint64_t order;
    std::function<void()> what;
    bool operator<(const Timed& o) const { return when != o.when ? when > o.when : order > o.order; }
  };

  std::mt19937_64 random_;
  std::uint64_t seed_;
  Options options_;
  std::priority_queue<Timed> queue_;
  std::uint64_t order_ = 0;
  MonoTime now_{};
  bool calm_ = false;  // the liveness phase
  bool across_hosts_ = false;
  PulseSettings pulse_;
  RoundSettings settings_;
  launcher::GroupSettings group_;
  int failing_ = 0;  // percent of workers
  std::optional<RoundCore> core_;
  int host_timer_ = 0;
  int stepped_round_ = -1;  // before the step that is looked at
  std::deque<Agent> agents_;
  std::map<MemberId, Link> links_;
  MemberId last_link_ = 0;
  int last_process_ = 0;
  std::map<MemberId, Shadow> shadow_;
  struct Round {
    int world = 0, nodes = 0;
    int started = 0;
    bool broken = false;  // some worker of it ended badly, or was lost
    bool never_started = false;
    std::optional<Verdict> cause;  // the first
    std::map<const Agent*, NodePlace> places;
  };
  std::map<int, Round> rounds_;
  std::vector<const Agent*> last_order_;
  std::deque<MonoTime> growths_;         // the last ones, on the host's clock
  std::optional<MonoTime> waits_since_;  // for enough nodes; on the host's clock
  bool again_ = false;                   // ... after there were enough
  std::optional<Verdict> verdict_;
  std::string trace_;
  Tally tally_;
};

}  // namespace dtrain::sim
