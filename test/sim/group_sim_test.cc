// GroupCore under thousands of seeded histories: a model world of processes answers the core's actions in random order
// and with random faults. After every step the invariants hold; every history ends; every cell of the table is reached.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <random>
#include <set>

#include "launcher/job/group_core.h"
#include "test/sim/seeds.h"
#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::launcher;

namespace {

using Cell = std::pair<GroupState, size_t>;

// What a worker does by itself in this history.
enum class Fate { succeeds, fails, ignores_term, never_starts, leaves_daemon, unkillable };

struct World {
  explicit World(uint64_t seed) : random(seed) {
    settings.workers = pick(1, 5);
    settings.max_restarts = pick(0, 3);
    settings.agreed = pick(0, 1) == 1;
    settings.failure_settles = std::chrono::milliseconds(pick(0, 1) * 200);
    core.emplace(settings);
    signals_to_send = pick(0, 3) == 0 ? pick(1, 3) : 0;
    guard_dies = pick(0, 19) == 0;
  }

  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }

  struct Process {
    int local_rank;  // -1: a daemon
    Fate fate;
    bool in_group = true;  // of a worker, be that one alive or not
    bool told_to_end = false;
    int told_by = -1;  // number of the request
  };

  std::mt19937_64 random;
  GroupSettings settings;
  std::optional<GroupCore> core;
  MonoTime now{};
  std::optional<MonoTime> timer;
  std::vector<Process> alive;     // started
  std::vector<GroupEvent> inbox;  // in order, from the guard
  bool output_open = false;
  bool empty_told = false;
  int spawned_rounds = 0;
  int to_spawn = 0;
  int request = -1;        // to stop: their number
  bool stopping = false;   // there was one in this round
  bool rest_told = false;  // since the last one
  bool broken = false;     // a spawn of this round failed, the guard does no more of them
  int signals_to_send = 0;
  bool guard_dies = false;
  bool guard_dead = false;
  bool finished = false;
  bool may_request = false;     // the workers may be told to end in this step
  bool deadline_stays = false;  // in this step
  bool rest_left = false;       // this step is about what is left when the workers are gone
  // The other nodes, in a job of several: what the host of the rounds still has to answer.
  bool answer_owed = false;
  bool ended_well = false;  // the last round, here
  bool leaving = false;
  bool verdict_told = false;
  bool accused = false;  // a worker here, by those of other nodes
  int reports_over = 0;
  Outcome outcome;
  std::set<Cell> seen;
  std::string trace;

  Fate random_fate() {
    const int n = pick(0, 99);
    if (n < 60) return Fate::succeeds;
    if (n < 78) return Fate::fails;
    if (n < 86) return Fate::ignores_term;
    if (n < 90) return Fate::never_starts;
    if (n < 98) return Fate::leaves_daemon;
    return Fate::unkillable;
  }

  void perform(const std::vector<GroupAction>& actions) {
    for (const auto& a : actions) perform(a);
  }

  // What the agent sends comes to the guard behind the spawns of the round.
  void perform(const GroupAction& a) {
    while (to_spawn > 0 && !guard_dead && !std::holds_alternative<action::StartRound>(a)) one_spawn();
    if (std::holds_alternative<action::StartRound>(a)) {
      // No overlap: a round starts only when nothing of the last one is alive.
      REQUIRE(alive.empty());
      REQUIRE(inbox.empty());
      REQUIRE((!settings.agreed || reports_over == spawned_rounds));
      ++spawned_rounds;
      output_open = true;
      empty_told = false;
      to_spawn = settings.workers;
      broken = stopping = rest_told = false;
    } else if (std::holds_alternative<action::SignalGroups>(a)) {
      // Nobody is told again for a worker that ends: only a request does it, and each comes once.
      REQUIRE(may_request);
      may_request = false;
      ++request;
      stopping = true;
      rest_told = false;
      for (auto& p : alive) {
        if (p.in_group) tell(p);
      }
    } else if (std::holds_alternative<action::SignalRest>(a)) {
      REQUIRE(rest_left);
      for (auto& p : alive) {
        if (!rest_told) break;  // a new request has overtaken it, and the guard waits for the groups again
        REQUIRE(p.local_rank < 0);
        if (p.told_by != request || request < 0) tell(p);
      }
    } else if (std::holds_alternative<action::KillContainment>(a)) {
      auto killed = alive;
      alive.clear();
      empty_told = false;
      for (const auto& p : killed) {
        if (p.fate == Fate::unkillable)
          alive.push_back(p);
        else if (p.local_rank >= 0 && !guard_dead)
          inbox.push_back(event::WorkerExited{p.local_rank, ExitStatus::signaled(SIGKILL, false)});
      }
    } else if (const auto* t = std::get_if<action::ArmTimer>(&a)) {
      REQUIRE(t->at > now);
      if (timer && deadline_stays && core->state() == GroupState::stopping) REQUIRE(t->at >= *timer);
      timer = t->at;
    } else if (std::holds_alternative<action::CancelTimer>(a)) {
      timer.reset();
    } else if (const auto* over = std::get_if<action::ReportOver>(&a)) {
      REQUIRE(settings.agreed);
      REQUIRE(alive.empty());
      ++reports_over;
      answer_owed = true;
      ended_well = over->ok;
    } else if (std::holds_alternative<action::ReportLeaving>(a)) {
      REQUIRE(settings.agreed);
      REQUIRE_FALSE(leaving);
      leaving = true;
    } else if (const auto* failed = std::get_if<action::ReportFailure>(&a)) {
      REQUIRE(settings.agreed);
      if (!accused) REQUIRE_FALSE(failed->status.success());
    } else if (const auto* f = std::get_if<action::Finish>(&a)) {
      REQUIRE_FALSE(finished);
      finished = true;
      outcome = f->outcome;
    }
  }

  void step(const GroupEvent& e) {
    seen.insert({core->state(), e.index()});
    trace += fmt::format("{} <- {}\n", to_string(core->state()), to_string(e));
    const GroupState before = core->state();
    const bool was_active = before == GroupState::starting || before == GroupState::running;
    const bool asked = std::holds_alternative<event::StopSignal>(e);
    // A user's own request sets its own deadline, and other nodes may not wait so long for this one.
    const bool others = std::holds_alternative<event::HostLost>(e) || std::holds_alternative<event::JobEnded>(e);
    may_request = was_active || asked;
    rest_left = std::holds_alternative<event::RestLeft>(e);
    deadline_stays = before == GroupState::stopping && !asked && !others;
    perform(core->step(e, now));
  }

  void tell(Process& p) {
    REQUIRE(p.told_by < std::max(request, 0));
    p.told_by = std::max(request, 0);
    p.told_to_end = p.fate != Fate::ignores_term && p.fate != Fate::unkillable;
  }

  // The workers are gone, and of what got a signal in their groups nothing is left.
  bool rest_is_due() const {
    return !rest_told && !alive.empty() && to_spawn == 0 && !guard_dead &&
           std::none_of(alive.begin(), alive.end(),
                        [&](const Process& p) { return p.local_rank >= 0 || (stopping && p.in_group); });
  }

  // The guard takes one spawn at a time, so exits of the first workers mix with starts of the last.
  void one_spawn() {
    const int local_rank = settings.workers - to_spawn--;
    const Fate fate = random_fate();
    broken = broken || fate == Fate::never_starts;
    if (broken) {
      inbox.push_back(event::WorkerNotStarted{local_rank, ExitStatus::not_started(SpawnStep::exec, ENOENT)});
    } else {
      inbox.push_back(event::WorkerStarted{local_rank});
      alive.push_back({local_rank, fate});
    }
  }

  void one_process_ends() {
    std::vector<size_t> able;
    for (size_t i = 0; i < alive.size(); ++i) {
      const bool stubborn = alive[i].fate == Fate::ignores_term || alive[i].fate == Fate::unkillable;
      const bool running = core->state() == GroupState::starting || core->state() == GroupState::running;
      const bool by_itself = alive[i].local_rank >= 0 && (!stubborn || (running && pick(0, 9) == 0));
      if (by_itself || alive[i].told_to_end) able.push_back(i);
    }
    if (able.empty()) return;
    const size_t i = able[size_t(pick(0, int(able.size()) - 1))];
    const Process p = alive[i];
    alive.erase(alive.begin() + long(i));
    if (p.local_rank < 0) return;
    const bool ok = !p.told_to_end && p.fate != Fate::fails;
    if (p.fate == Fate::leaves_daemon)
      alive.push_back({-1, pick(0, 1) ? Fate::succeeds : Fate::ignores_term, pick(0, 1) == 0});
    const Testimony told{now, p.told_to_end, random_blame()};
    inbox.push_back(event::WorkerExited{p.local_rank,
                                        p.told_to_end ? ExitStatus::signaled(SIGTERM, false)
                                        : ok          ? ExitStatus::exited(0)
                                                      : ExitStatus::exited(3),
                                        told});
  }

  // Mostly of nobody; else of somebody, or of a rank that may be here.
  Blame random_blame() {
    if (pick(0, 1) == 0) return {};
    return {pick(Blame::kSomebody, settings.workers), pick(0, 3) != 0, "left the job"};
  }

  void end_job(JobEnd how, int code) {
    verdict_told = true;
    answer_owed = false;
    step(event::JobEnded{{how, code, pick(0, 2), "as agreed"}});
  }

  // What comes from the host of the rounds.
  void others_move() {
    const bool waits = core->state() == GroupState::waiting;
    if (leaving && waits) return end_job(JobEnd::stopped, 130);
    if (answer_owed && waits && pick(0, 3) == 0) {
      if (ended_well && pick(0, 1) == 0) return end_job(JobEnd::success, 0);
      if (spawned_rounds > 0 && core->restarts() >= settings.max_restarts) return end_job(JobEnd::failure, 3);
      answer_owed = false;
      return step(event::RoundOpened{spawned_rounds, core->restarts() + (spawned_rounds > 0 ? 1 : 0)});
    }
    if (pick(0, 60) == 0) {
      const Blame blame = random_blame();
      accused = accused || (blame.rank >= 0 && blame.rank < settings.workers);
      return step(event::RoundStopped{pick(0, 1) == 0 ? 0 : SIGINT, "elsewhere", blame});
    }
    if (pick(0, 80) == 0) {
      step(event::HostLost{"the host is gone", std::chrono::milliseconds(500)});
      const GroupState state = core->state();
      REQUIRE(state != GroupState::starting);
      REQUIRE(state != GroupState::running);
      if (state == GroupState::stopping) REQUIRE(*timer <= now + std::chrono::milliseconds(500));
      return;
    }
    if (pick(0, 200) == 0) end_job(JobEnd::lost, 125);
  }

  void move() {
    if (settings.agreed && !verdict_told && pick(0, 3) == 0) return others_move();
    const int what = pick(0, 9);
    if (to_spawn > 0 && pick(0, 1) == 0 && !guard_dead) {
      one_spawn();
    } else if (what < 4 && !inbox.empty()) {
      const GroupEvent e = inbox.front();
      inbox.erase(inbox.begin());
      step(e);
    } else if (what < 6) {
      if (rest_is_due() && pick(0, 1) == 0) {
        rest_told = true;
        inbox.push_back(event::RestLeft{});
      } else {
        one_process_ends();
      }
    } else if (what == 6 && signals_to_send > 0) {
      --signals_to_send;
      step(event::StopSignal{SIGINT});
    } else if (what == 7 && pick(0, 9) == 0) {
      step(event::PassedSignal{SIGUSR1});
    } else if (what == 8 && guard_dies && !guard_dead && spawned_rounds > 0 && pick(0, 5) == 0) {
      guard_dead = true;
      to_spawn = 0;
      inbox.clear();
      step(event::GuardLost{"gone"});
    } else if (to_spawn == 0 && alive.empty() && inbox.empty() && !empty_told) {
      empty_told = true;
      step(event::ContainmentEmpty{});
    } else if (to_spawn == 0 && alive.empty() && output_open) {
      output_open = false;
      step(event::OutputClosed{});
    } else if (timer && pick(0, 5) == 0 && (core->state() != GroupState::killing || unkillable_alive())) {
      now = *timer;
      timer.reset();
      step(event::TimerFired{});
    }
  }

  void run() {
    perform(core->start(now));
    answer_owed = settings.agreed;
    for (int i = 0; i < 20000 && !finished; ++i) {
      now += std::chrono::milliseconds(1);
      move();
    }
    // A straggler of a message that was under way changes nothing.
    if (finished) {
      for (const GroupEvent& e : every_event()) step(e);
    }
  }

  static std::vector<GroupEvent> every_event() {
    return {event::WorkerStarted{0},
            event::WorkerNotStarted{0, ExitStatus::not_started(SpawnStep::exec, ENOENT)},
            event::WorkerExited{0, ExitStatus::exited(1)},
            event::RestLeft{},
            event::ContainmentEmpty{},
            event::OutputClosed{},
            event::StopSignal{SIGTERM},
            event::PassedSignal{SIGUSR1},
            event::TimerFired{},
            event::GuardLost{"gone"},
            event::RoundOpened{0, 0},
            event::RoundStopped{0, "elsewhere"},
            event::HostLost{"gone", std::chrono::milliseconds(500)},
            event::JobEnded{}};
  }

  bool unkillable_alive() const {
    return std::any_of(alive.begin(), alive.end(), [](const Process& p) { return p.fate == Fate::unkillable; });
  }
};

// Running means that all were started; the guard tells of exits
// before it tells of empty, and nothing of a round comes when it is over; the host opens a round when all wait for it.
const std::set<Cell> kImpossible = {{GroupState::running, 0},  {GroupState::running, 1},   {GroupState::starting, 3},
                                    {GroupState::running, 3},  {GroupState::starting, 4},  {GroupState::running, 4},
                                    {GroupState::waiting, 0},  {GroupState::waiting, 1},   {GroupState::waiting, 2},
                                    {GroupState::waiting, 3},  {GroupState::waiting, 5},   {GroupState::starting, 10},
                                    {GroupState::running, 10}, {GroupState::stopping, 10}, {GroupState::killing, 10}};

void check_end(const World& w) {
  REQUIRE(w.finished);  // liveness
  // Alone, every round but the first is a charged restart.
  if (!w.settings.agreed) REQUIRE(w.spawned_rounds == w.outcome.restarts + 1);
  REQUIRE(w.outcome.restarts <= w.settings.max_restarts);  // budget
  REQUIRE(w.outcome.processes_left == w.unkillable_alive());
  if (!w.outcome.processes_left) REQUIRE(w.alive.empty());  // nothing survives
  if (w.outcome.verdict) REQUIRE(w.settings.agreed);
  if (w.outcome.cause == StopCause::failure && !w.outcome.verdict) {
    REQUIRE(w.outcome.first_failure);
    if (!w.accused) REQUIRE_FALSE(w.outcome.first_status.success());
  }
  if (w.outcome.cause == StopCause::success) REQUIRE_FALSE(w.outcome.first_failure);
}

std::string run_trace(uint64_t seed) {
  World w(seed);
  w.run();
  return w.trace;
}

}  // namespace

TEST_CASE("seeded histories keep the invariants and reach every cell") {
  const auto [from, seeds] = sim::seeds(5000);
  std::set<Cell> seen;
  for (uint64_t seed = from; seed < from + seeds; ++seed) {
    World w(seed);
    INFO("replay with DTRAIN_SIM_SEED=" << seed);
    w.run();
    INFO(w.trace.substr(w.trace.size() > 2000 ? w.trace.size() - 2000 : 0));
    check_end(w);
    seen.insert(w.seen.begin(), w.seen.end());
  }
  if (seeds < 1000) return;
  for (int state = 0; state < kGroupStates; ++state) {
    for (size_t e = 0; e < std::variant_size_v<GroupEvent>; ++e) {
      const bool impossible = kImpossible.count({GroupState(state), e}) != 0;
      INFO(to_string(GroupState(state)) << " <- " << to_string(World::every_event()[e]));
      CHECK(seen.count({GroupState(state), e}) == (impossible ? 0 : 1));
    }
  }
}

TEST_CASE("a host that does not answer is waited for after success alone") {
  for (const int code : {0, 3}) {
    GroupSettings settings;
    settings.agreed = true;
    GroupCore core(settings);
    std::vector<GroupAction> said = core.start(MonoTime{});
    auto last_is_timer = [&] { return std::holds_alternative<action::ArmTimer>(said.back()); };
    for (const GroupEvent& e : std::vector<GroupEvent>{event::RoundOpened{0, 0}, event::WorkerStarted{0},
                                                       event::WorkerExited{0, ExitStatus::exited(code)},
                                                       event::ContainmentEmpty{}, event::OutputClosed{}})
      said = core.step(e, MonoTime{});
    REQUIRE(core.state() == GroupState::waiting);
    CHECK(last_is_timer() == (code != 0));
    if (code == 0) {
      said = core.step(event::StopSignal{SIGTERM}, MonoTime{});
      CHECK(last_is_timer());
    }
    said = core.step(event::TimerFired{}, MonoTime{});
    REQUIRE(core.state() == GroupState::finished);
    const Outcome outcome = std::get<action::Finish>(said.back()).outcome;
    CHECK(outcome.cause == (code == 0 ? StopCause::stop_signal : StopCause::failure));
    CHECK_FALSE(outcome.verdict);
  }
}

TEST_CASE("a stop on top of a stop gives the workers no more time than the other nodes wait") {
  GroupSettings settings;
  settings.agreed = true;
  GroupCore core(settings);
  core.start(MonoTime{});
  auto at = [&](Duration when, const GroupEvent& e) {
    std::optional<Duration> timer;
    for (const auto& a : core.step(e, MonoTime{} + when)) {
      if (const auto* armed = std::get_if<action::ArmTimer>(&a)) timer = armed->at - MonoTime{};
    }
    return timer;
  };
  at({}, event::RoundOpened{0, 0});
  at({}, event::WorkerStarted{0});
  CHECK(at({}, event::RoundStopped{SIGINT, "stopped elsewhere"}) == settings.shutdown_timeout);
  CHECK(at(std::chrono::seconds(20), event::StopSignal{SIGINT}) == settings.shutdown_timeout);
}

TEST_CASE("the same seed gives the same history") {
  for (uint64_t seed = 1; seed < 50; ++seed) REQUIRE(run_trace(seed) == run_trace(seed));
}

namespace {

// One node of two workers, of which the first ends with 9; what then has been said and done.
struct Failing {
  explicit Failing(bool agreed)
      : core({.workers = 2, .failure_settles = std::chrono::milliseconds(200), .agreed = agreed}) {
    core.start(now);
    if (agreed) step(event::RoundOpened{0, 0});
    step(event::WorkerStarted{0});
    step(event::WorkerStarted{1});
    step(event::WorkerExited{0, ExitStatus::exited(9)});
  }

  void step(const GroupEvent& e) {
    for (const GroupAction& a : core.step(e, now)) {
      reported = reported || std::holds_alternative<action::ReportFailure>(a);
      if (const auto* t = std::get_if<action::ArmTimer>(&a)) timer = t->at;
      if (const auto* f = std::get_if<action::Finish>(&a)) outcome = f->outcome;
    }
  }

  void all_end() {
    step(event::WorkerExited{1, ExitStatus::exited(9)});
    step(event::ContainmentEmpty{});
    step(event::OutputClosed{});
  }

  MonoTime now{};
  GroupCore core;
  bool reported = false;
  MonoTime timer{};
  std::optional<Outcome> outcome;
};

}  // namespace

TEST_CASE("a stop signal soon after the first failure is its cause") {
  Failing node(false);
  node.all_end();
  REQUIRE_FALSE(node.outcome);
  node.step(event::StopSignal{SIGTERM});
  REQUIRE(node.outcome);
  CHECK(node.outcome->cause == StopCause::stop_signal);
  CHECK(node.outcome->stop_signal == SIGTERM);
  CHECK_FALSE(node.outcome->first_failure);

  Failing one_of_many(true);
  one_of_many.step(event::StopSignal{SIGTERM});
  one_of_many.all_end();
  one_of_many.now += std::chrono::seconds(1);
  one_of_many.step(event::TimerFired{});
  CHECK_FALSE(one_of_many.reported);
}

TEST_CASE("without one the failure counts, soon") {
  for (const bool agreed : {false, true}) {
    Failing node(agreed);
    CHECK(node.timer == MonoTime{} + std::chrono::milliseconds(200));
    node.all_end();
    CHECK_FALSE(node.reported);
    node.now = node.timer;
    node.step(event::TimerFired{});
    CHECK(node.reported == agreed);
    CHECK(node.outcome.has_value() == !agreed);
    if (node.outcome) CHECK(node.outcome->cause == StopCause::failure);
  }
}

TEST_CASE("a stop signal after that changes no verdict") {
  Failing node(false);
  node.now += std::chrono::milliseconds(200);
  node.step(event::StopSignal{SIGTERM});
  node.all_end();
  REQUIRE(node.outcome);
  CHECK(node.outcome->cause == StopCause::failure);
  CHECK(node.outcome->first_status == ExitStatus::exited(9));
}

TEST_CASE("the workers that are left have their grace when a failure has settled") {
  Failing node(false);
  node.now = node.timer;
  node.step(event::TimerFired{});
  CHECK(node.core.state() == GroupState::stopping);
  CHECK(node.timer == MonoTime{} + GroupSettings{}.failure_grace);
}

TEST_CASE("a node that lost its host waits for another, or ends when its user stops it") {
  for (const bool stopped : {false, true}) {
    GroupSettings settings;
    settings.agreed = true;
    GroupCore core(settings);
    core.start(MonoTime{});
    core.step(event::RoundOpened{0, 0}, MonoTime{});
    core.step(event::WorkerStarted{0}, MonoTime{});
    core.step(event::HostLost{"gone", std::chrono::milliseconds(500)}, MonoTime{});
    core.step(event::WorkerExited{0, ExitStatus::signaled(SIGTERM, false)}, MonoTime{});
    core.step(event::ContainmentEmpty{}, MonoTime{});
    if (stopped) core.step(event::StopSignal{SIGINT}, MonoTime{});
    const auto said = core.step(event::OutputClosed{}, MonoTime{});
    if (stopped) {
      REQUIRE(core.state() == GroupState::finished);
      const Outcome& outcome = std::get<action::Finish>(said.back()).outcome;
      CHECK((outcome.cause == StopCause::stop_signal && outcome.stop_signal == SIGINT));
    } else {
      CHECK(std::holds_alternative<action::ReportOver>(said.back()));
      CHECK(core.state() == GroupState::waiting);
      core.step(event::RoundOpened{3, 0}, MonoTime{});
      CHECK(core.state() == GroupState::starting);
    }
  }
}
