// GroupCore's decisions: the table of its states and events, one row a cell, as the picture in the header; and stories
// of the worker to blame, which may end by itself before the others are stopped. test/sim has the orders of events.
#include "launcher/job/group_core.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "test/support/catch.h"

namespace dtrain::launcher {
namespace {

using namespace std::chrono_literals;

const ExitStatus kWell = ExitStatus::exited(0), kOne = ExitStatus::exited(1), kThree = ExitStatus::exited(3);

struct Group {
  explicit Group(GroupSettings settings) : core(settings), workers(settings.workers) {
    core.start(now);
    if (settings.agreed) core.step(event::RoundOpened{0, 0, 10}, now);
    for (int i = 0; i < workers; ++i) core.step(event::WorkerStarted{i}, now);
  }

  void step(const GroupEvent& event) { done = core.step(event, now); }
  void ends(int local_rank, ExitStatus status, int because_of = Blame::kNobody, bool it_ends = true) {
    Testimony told;
    told.blame = {because_of, it_ends, "left the job"};
    step(event::WorkerExited{local_rank, status, told});
  }
  template <class Action>
  const Action* did() const {
    for (const auto& action : done)
      if (const auto* one = std::get_if<Action>(&action)) return one;
    return nullptr;
  }
  bool stopped_all() const { return did<action::SignalGroups>() != nullptr; }
  // What has to come for the round to be over.
  void emptied() {
    core.step(event::OutputClosed{}, now);
    step(event::ContainmentEmpty{});
  }

  MonoTime now = MonoTime{} + 1s;
  GroupCore core;
  int workers;
  std::vector<GroupAction> done;
};

GroupSettings of(int workers, int restarts = 0) {
  GroupSettings settings;
  settings.workers = workers;
  settings.max_restarts = restarts;
  return settings;
}

GroupSettings with_others(int workers) {
  GroupSettings settings = of(workers);
  settings.agreed = true;
  return settings;
}

using S = GroupState;

const char* name_of(const GroupAction& action) {
  static constexpr const char* kNames[] = {
      "start round", "worker gone", "replace", "signal groups", "signal rest",  "signal workers", "tell rest",   "kill",
      "timer",       "no timer",    "finish",  "say",           "tell failure", "tell over",      "tell leaving"};
  static_assert(std::size(kNames) == std::variant_size_v<GroupAction>);
  return kNames[action.index()];
}

// A group of two workers in this state. several_nodes: the group is a part of a job of several nodes.
Group in_state(S state, bool several_nodes) {
  GroupSettings settings = of(2, 1);
  settings.agreed = several_nodes || state == S::waiting;
  Group group(settings);
  switch (state) {
    case S::starting:  // the second worker has not started
      group.core = GroupCore(settings);
      group.core.start(group.now);
      if (settings.agreed) group.core.step(event::RoundOpened{0, 0, 10}, group.now);
      group.core.step(event::WorkerStarted{0}, group.now);
      break;
    case S::running:
      break;
    case S::killing:  // the workers have not ended in time
      group.core.step(event::StopSignal{SIGINT}, group.now);
      group.now += settings.shutdown_timeout;
      group.core.step(event::TimerFired{}, group.now);
      break;
    case S::stopping:  // the first worker has failed, the second one is alive
      group.ends(0, kOne);
      break;
    case S::waiting:  // for the host's answer after a failure
    case S::finished:
      group.ends(0, kOne);
      group.ends(1, kOne);
      group.emptied();
      if (state == S::finished && !settings.agreed) {  // the restart fails too
        for (const int i : {0, 1}) group.core.step(event::WorkerStarted{i}, group.now);
        group.ends(0, kOne);
        group.ends(1, kOne);
        group.emptied();
      }
      if (state == S::finished && settings.agreed)
        group.core.step(event::JobEnded{{JobEnd::failure, 1, 0, ""}}, group.now);
      break;
  }
  REQUIRE(group.core.state() == state);
  return group;
}

// The state that the group is in now, and what the last step did.
std::string told(const Group& group) {
  std::string text = to_string(group.core.state());
  for (const GroupAction& action : group.done)
    text += fmt::format("{} {}", &action == group.done.data() ? ":" : ",", name_of(action));
  return text;
}

struct Cell {
  S from;
  GroupEvent event;
  const char* then;  // the next state, and the actions in order
};

const ExitStatus kNoProgram = ExitStatus::not_started(SpawnStep::exec, ENOENT);

const Cell kTable[] = {
    // ---- starting
    {S::starting, event::WorkerStarted{1}, "running"},
    {S::starting, event::WorkerNotStarted{1, kNoProgram}, "stopping: timer, signal groups"},
    {S::starting, event::WorkerExited{1, kThree}, "stopping: timer, signal groups"},
    {S::starting, event::RestLeft{}, "starting"},
    {S::starting, event::ContainmentEmpty{}, "starting"},
    {S::starting, event::OutputClosed{}, "starting"},
    {S::starting, event::StopSignal{SIGINT}, "stopping: timer, say, signal groups"},
    {S::starting, event::PassedSignal{SIGUSR1}, "starting: signal workers"},
    {S::starting, event::TimerFired{}, "starting"},
    {S::starting, event::GuardLost{"gone"}, "killing: say, kill, timer"},
    {S::starting, event::RoundOpened{1, 1, 10}, "starting"},
    {S::starting, event::RoundStopped{0, "elsewhere"}, "stopping: say, timer, signal groups"},
    {S::starting, event::HostLost{"gone", 500ms}, "stopping: say, timer, signal groups"},
    {S::starting, event::JobEnded{{JobEnd::failure, 1, 0, "as agreed"}}, "stopping: say, timer, signal groups"},
    // ---- running
    {S::running, event::WorkerStarted{1}, "running"},
    {S::running, event::WorkerNotStarted{1, kNoProgram}, "stopping: timer, signal groups"},
    {S::running, event::WorkerExited{1, kThree}, "stopping: timer, signal groups"},
    {S::running, event::RestLeft{}, "running"},
    {S::running, event::ContainmentEmpty{}, "running"},
    {S::running, event::OutputClosed{}, "running"},
    {S::running, event::StopSignal{SIGINT}, "stopping: timer, say, signal groups"},
    {S::running, event::PassedSignal{SIGUSR1}, "running: signal workers"},
    {S::running, event::TimerFired{}, "running"},
    {S::running, event::GuardLost{"gone"}, "killing: say, kill, timer"},
    {S::running, event::RoundOpened{1, 1, 10}, "running"},
    {S::running, event::RoundStopped{0, "elsewhere"}, "stopping: say, timer, signal groups"},
    {S::running, event::HostLost{"gone", 500ms}, "stopping: say, timer, signal groups"},
    {S::running, event::JobEnded{{JobEnd::failure, 1, 0, "as agreed"}}, "stopping: say, timer, signal groups"},
    // ---- stopping
    {S::stopping, event::WorkerStarted{1}, "stopping"},
    {S::stopping, event::WorkerNotStarted{1, kNoProgram}, "stopping"},
    {S::stopping, event::WorkerExited{1, kThree}, "stopping"},
    {S::stopping, event::RestLeft{}, "stopping: tell rest, signal rest"},
    {S::stopping, event::ContainmentEmpty{}, "stopping"},
    {S::stopping, event::OutputClosed{}, "stopping"},
    {S::stopping, event::StopSignal{SIGINT}, "stopping: timer, say, signal groups"},
    {S::stopping, event::PassedSignal{SIGUSR1}, "stopping: signal workers"},
    {S::stopping, event::TimerFired{}, "killing: say, kill, timer"},
    {S::stopping, event::GuardLost{"gone"}, "killing: say, kill, timer"},
    {S::stopping, event::RoundOpened{1, 1, 10}, "stopping"},
    {S::stopping, event::RoundStopped{0, "elsewhere"}, "stopping"},
    {S::stopping, event::HostLost{"gone", 500ms}, "stopping: timer"},
    {S::stopping, event::JobEnded{{JobEnd::failure, 1, 0, "as agreed"}}, "stopping"},
    // ---- killing
    {S::killing, event::WorkerStarted{1}, "killing"},
    {S::killing, event::WorkerNotStarted{1, kNoProgram}, "killing"},
    {S::killing, event::WorkerExited{1, kThree}, "killing"},
    {S::killing, event::RestLeft{}, "killing"},
    {S::killing, event::ContainmentEmpty{}, "killing"},
    {S::killing, event::OutputClosed{}, "killing"},
    {S::killing, event::StopSignal{SIGINT}, "killing"},
    {S::killing, event::PassedSignal{SIGUSR1}, "killing: signal workers"},
    {S::killing, event::TimerFired{}, "finished: no timer, finish"},
    {S::killing, event::GuardLost{"gone"}, "killing: say, kill, timer"},
    {S::killing, event::RoundOpened{1, 1, 10}, "killing"},
    {S::killing, event::RoundStopped{0, "elsewhere"}, "killing"},
    {S::killing, event::HostLost{"gone", 500ms}, "killing"},
    {S::killing, event::JobEnded{{JobEnd::failure, 1, 0, "as agreed"}}, "killing"},
    // ---- waiting
    {S::waiting, event::WorkerStarted{1}, "waiting"},
    {S::waiting, event::WorkerNotStarted{1, kNoProgram}, "waiting"},
    {S::waiting, event::WorkerExited{1, kThree}, "waiting"},
    {S::waiting, event::RestLeft{}, "waiting"},
    {S::waiting, event::ContainmentEmpty{}, "waiting"},
    {S::waiting, event::OutputClosed{}, "waiting"},
    {S::waiting, event::StopSignal{SIGINT}, "waiting: tell leaving, say, timer"},
    {S::waiting, event::PassedSignal{SIGUSR1}, "waiting: signal workers"},
    {S::waiting, event::TimerFired{}, "finished: say, no timer, finish"},
    {S::waiting, event::GuardLost{"gone"}, "killing: say, kill, timer"},
    {S::waiting, event::RoundOpened{1, 1, 10}, "starting: no timer, start round"},
    {S::waiting, event::RoundStopped{0, "elsewhere"}, "waiting"},
    {S::waiting, event::HostLost{"gone", 500ms}, "waiting: no timer"},
    {S::waiting, event::JobEnded{{JobEnd::failure, 1, 0, "as agreed"}}, "finished: no timer, finish"},
    // ---- finished
    {S::finished, event::WorkerStarted{1}, "finished"},
    {S::finished, event::WorkerNotStarted{1, kNoProgram}, "finished"},
    {S::finished, event::WorkerExited{1, kThree}, "finished"},
    {S::finished, event::RestLeft{}, "finished"},
    {S::finished, event::ContainmentEmpty{}, "finished"},
    {S::finished, event::OutputClosed{}, "finished"},
    {S::finished, event::StopSignal{SIGINT}, "finished"},
    {S::finished, event::PassedSignal{SIGUSR1}, "finished"},
    {S::finished, event::TimerFired{}, "finished"},
    {S::finished, event::GuardLost{"gone"}, "finished"},
    {S::finished, event::RoundOpened{1, 1, 10}, "finished"},
    {S::finished, event::RoundStopped{0, "elsewhere"}, "finished"},
    {S::finished, event::HostLost{"gone", 500ms}, "finished"},
    {S::finished, event::JobEnded{{JobEnd::failure, 1, 0, "as agreed"}}, "finished"},
};

}  // namespace

TEST_CASE("the table of states and events") {
  std::set<std::pair<S, std::size_t>> seen;
  for (const Cell& cell : kTable) {
    INFO(to_string(cell.from) << " <- " << to_string(cell.event));
    CHECK(seen.emplace(cell.from, cell.event.index()).second);
    // Events of the host of the rounds come in a job of several nodes alone.
    Group group = in_state(cell.from, cell.event.index() >= GroupEvent(event::RoundOpened{}).index());
    if (std::holds_alternative<event::TimerFired>(cell.event)) group.now += 1h;  // each timer has run out by then
    group.step(cell.event);
    CHECK(told(group) == cell.then);
  }
  CHECK(seen.size() == kGroupStates * std::variant_size_v<GroupEvent>);
}

TEST_CASE("a round of which nothing is left is over, and what follows depends on how it ended") {
  struct Row {
    bool several_nodes;
    int restarts;
    ExitStatus status;  // of both workers
    bool stopped;       // by the user, while both ran
    const char* then;
  };
  const Row kRows[] = {
      {false, 1, kWell, false, "finished: no timer, finish"},
      {false, 1, kOne, false, "starting: no timer, say, start round"},
      {false, 0, kOne, false, "finished: no timer, finish"},
      {false, 1, kOne, true, "finished: no timer, finish"},
      {true, 1, kWell, false, "waiting: no timer, tell over"},
      {true, 1, kOne, false, "waiting: no timer, tell over, timer"},
      {true, 1, kOne, true, "waiting: no timer, tell over, timer"},
  };
  for (const Row& row : kRows) {
    GroupSettings settings = of(2, row.restarts);
    settings.agreed = row.several_nodes;
    Group group(settings);
    if (row.stopped) group.step(event::StopSignal{SIGINT});
    for (const int i : {0, 1}) group.ends(i, row.status);
    group.emptied();
    CHECK(told(group) == row.then);
  }
}

TEST_CASE("a round that is killed is over in the same way") {
  for (const bool restart : {true, false}) {
    Group group(of(2, restart ? 1 : 0));
    group.ends(0, kOne);
    group.now += 1h;
    group.step(event::TimerFired{});
    CHECK(told(group) == "killing: say, kill, timer");
    group.ends(1, ExitStatus::signaled(SIGKILL, false));
    group.emptied();
    CHECK(told(group) == (restart ? "starting: no timer, say, start round" : "finished: no timer, finish"));
  }
}

TEST_CASE("the end of the worker that is blamed is awaited, and it is the cause") {
  Group group(of(3, 1));
  group.ends(0, kOne, 1);
  CHECK_FALSE(group.stopped_all());
  REQUIRE(group.did<action::ArmTimer>());
  group.ends(2, kOne, 1);
  CHECK_FALSE(group.stopped_all());
  group.ends(1, kThree);
  CHECK(group.stopped_all());
  group.emptied();
  REQUIRE(group.did<action::Say>());
  CHECK(group.did<action::Say>()->text.starts_with("local rank 1: exit code 3: restarting"));
}

TEST_CASE("one that has ended with 0 is the cause, and the exit code is that of who needed it") {
  for (const bool before : {true, false}) {
    Group group(of(2));
    if (before) group.ends(1, kWell);
    group.ends(0, kThree, 1);
    if (!before) group.ends(1, kWell);
    CHECK(group.stopped_all());
    group.emptied();
    REQUIRE(group.did<action::Finish>());
    const Outcome& outcome = group.did<action::Finish>()->outcome;
    CHECK(outcome.first_failure == 1);
    CHECK(outcome.first_status == kThree);
    CHECK(outcome.reason == "local rank 1: ended with code 0 while others were in a collective");
  }
}

TEST_CASE("a worker that does not end in time, or is not expected to, is stopped with the others and named") {
  Group slow(of(2));
  slow.ends(0, kOne, 1);
  slow.now += GroupSettings{}.failure_grace;
  slow.step(event::TimerFired{});
  CHECK(slow.stopped_all());
  Group stuck(of(2));
  stuck.ends(0, kOne, 1, false);
  CHECK(stuck.stopped_all());
  for (Group* group : {&slow, &stuck}) {
    group->core.step(event::WorkerExited{1, ExitStatus::signaled(SIGTERM, false), {{}, true, {}}}, group->now);
    group->emptied();
    REQUIRE(group->did<action::Finish>());
    CHECK(group->did<action::Finish>()->outcome.first_failure == 1);
    CHECK(group->did<action::Finish>()->outcome.first_status == kOne);
  }
}

TEST_CASE("one whose start is not known of yet is awaited as well") {
  Group group(of(2));
  group.core = GroupCore(of(2));
  group.core.start(group.now);
  group.core.step(event::WorkerStarted{0}, group.now);
  group.ends(0, kOne, 1);
  CHECK_FALSE(group.stopped_all());
  group.step(event::WorkerStarted{1});
  group.ends(1, kThree);
  CHECK(group.stopped_all());
}

TEST_CASE("nothing else waits for the cause") {
  const auto awaiting = [] {
    Group group(of(2, 5));
    group.ends(0, kOne, 1);
    CHECK_FALSE(group.stopped_all());
    return group;
  };
  Group stopped = awaiting();
  stopped.step(event::StopSignal{SIGINT});
  CHECK(stopped.stopped_all());
  Group lost = awaiting();
  lost.step(event::GuardLost{"the guard is gone"});
  CHECK(lost.did<action::KillContainment>());
  // A signal that is passed on changes nothing.
  Group passed = awaiting();
  passed.step(event::PassedSignal{SIGUSR1});
  CHECK_FALSE(passed.stopped_all());
}

TEST_CASE("whoever says only that a peer has gone waits for another to end") {
  Group group(of(3));
  group.ends(0, kOne, Blame::kSomebody);
  CHECK_FALSE(group.stopped_all());
  group.ends(2, kOne, Blame::kSomebody);
  CHECK_FALSE(group.stopped_all());
  group.ends(1, kThree);
  CHECK(group.stopped_all());
  group.emptied();
  CHECK(group.did<action::Finish>()->outcome.first_failure == 1);
}

TEST_CASE("a rank of another node is told of at once") {
  Group group(with_others(2));
  group.ends(0, kOne, 3);  // ranks 10 and 11 are here
  CHECK(group.stopped_all());
  REQUIRE(group.did<action::ReportFailure>());
  CHECK(group.did<action::ReportFailure>()->blame.rank == 3);
  CHECK(group.did<action::ReportFailure>()->what == "exit code 1");
}

TEST_CASE("blamed by other nodes: a worker's end is awaited and told") {
  Group group(with_others(2));
  group.step(event::RoundStopped{0, "node 0: rank 0: exit code 1", {11, true, "left the job"}});
  CHECK_FALSE(group.stopped_all());
  group.ends(1, kThree);
  CHECK(group.stopped_all());
  REQUIRE(group.did<action::ReportFailure>());
  CHECK(group.did<action::ReportFailure>()->local_rank == 1);
  CHECK(group.did<action::ReportFailure>()->status == kThree);

  Group left(with_others(2));
  left.ends(1, kWell);
  left.step(event::RoundStopped{0, "node 0: rank 0: exit code 1", {11, true, "left the job"}});
  CHECK(left.stopped_all());
  REQUIRE(left.did<action::ReportFailure>());
  CHECK(left.did<action::ReportFailure>()->status.success());
  CHECK(left.did<action::ReportFailure>()->what == "ended with code 0 while others were in a collective");

  Group innocent(with_others(2));
  innocent.step(event::RoundStopped{0, "node 0: rank 0: exit code 1", {3, true, "left the job"}});
  CHECK(innocent.stopped_all());
  CHECK_FALSE(innocent.did<action::ReportFailure>());
}

TEST_CASE("a node whose workers have all ended well hears that one of them is to blame") {
  Group group(with_others(1));
  group.ends(0, kWell);
  group.emptied();
  group.step(event::RoundStopped{0, "node 0: rank 0: exit code 1", {10, true, "left the job"}});
  CHECK(group.done.empty());
  group.step(event::JobEnded{{JobEnd::failure, 1, 1, "node 1: rank 10 ended with code 0"}});
  REQUIRE(group.did<action::Finish>());
  CHECK(group.did<action::Finish>()->outcome.cause == StopCause::failure);
  CHECK(group.did<action::Finish>()->outcome.accused.rank == 10);
}

TEST_CASE("who was told of too early is corrected before the round is over") {
  Group group(with_others(3));
  group.ends(0, kOne);
  REQUIRE(group.did<action::ReportFailure>());
  Testimony told;
  told.since = MonoTime{} + 500ms;  // its exception was earlier
  group.step(event::WorkerExited{1, kThree, told});
  group.ends(2, ExitStatus::signaled(SIGTERM, false), Blame::kNobody);
  group.emptied();
  REQUIRE(group.did<action::ReportFailure>());
  CHECK(group.did<action::ReportFailure>()->local_rank == 1);
}

TEST_CASE("with survivors a failure ends the round only when too few are left") {
  GroupSettings settings = of(3);
  settings.survivors = 1;
  Group group(settings);
  group.ends(1, kThree);
  CHECK(told(group) == "running: worker gone, say");
  CHECK(group.did<action::Say>()->text == "rank 1 (local rank 1): exit code 3; 2 workers of this node left to go on");
  group.ends(0, kOne);
  CHECK(told(group) == "running: worker gone, say");
  SECTION("the last one ends well, and so does the job") {
    group.ends(2, kWell);
    group.emptied();
    CHECK(told(group) == "finished: no timer, finish");
    CHECK(group.did<action::Finish>()->outcome.cause == StopCause::success);
    CHECK(group.did<action::Finish>()->outcome.reason == "1 worker ended with exit code 0");
  }
  SECTION("the last one fails, and is to blame: the others' ends are no causes of its own") {
    group.ends(2, ExitStatus::exited(9));
    group.emptied();
    const Outcome& outcome = group.did<action::Finish>()->outcome;
    CHECK(outcome.cause == StopCause::failure);
    CHECK(outcome.first_failure == 2);
    CHECK(outcome.first_status == ExitStatus::exited(9));
  }
  SECTION("a stop signal stops those that are left") {
    group.step(event::StopSignal{SIGTERM});
    CHECK(told(group) == "stopping: timer, say, signal groups");
    group.ends(2, ExitStatus::signaled(SIGTERM, false));
    group.emptied();
    CHECK(group.did<action::Finish>()->outcome.cause == StopCause::stop_signal);
  }
}

TEST_CASE("a stop begins with the request, also of a node that has no workers") {
  for (const S state : {S::running, S::waiting}) {
    Group group = in_state(state, false);
    const MonoTime asked = group.now += std::chrono::hours(1);
    group.step(event::StopSignal{SIGTERM});
    CHECK(group.core.stop_began() == asked);
    group.now += std::chrono::seconds(2);
    group.step(event::StopSignal{SIGTERM});
    CHECK(group.core.stop_began() == asked);
  }
}

TEST_CASE("with survivors a new process takes a place for each restart that is left") {
  GroupSettings settings = of(2, 2);
  settings.survivors = 1;
  Group group(settings);
  group.ends(1, kThree);
  CHECK(told(group) == "running: worker gone, say, replace");
  CHECK(group.did<action::ReplaceWorker>()->incarnation == 1);
  SECTION("while it starts nobody else may fail") {
    group.ends(0, kOne);
    CHECK(told(group) == "stopping: worker gone, timer, signal groups");
    group.step(event::WorkerStarted{1});
    group.ends(1, ExitStatus::signaled(SIGTERM, false));
    group.emptied();
    CHECK(told(group) == "starting: no timer, say, start round");  // the second restart
  }
  SECTION("a process that cannot be started is not tried again") {
    group.step(event::WorkerNotStarted{1, kNoProgram});
    CHECK(told(group) == "running: worker gone, say");
    CHECK(group.did<action::WorkerGone>()->incarnation == 1);
    group.ends(0, kWell);
    group.emptied();
    CHECK(group.did<action::Finish>()->outcome.cause == StopCause::success);
  }
  SECTION("the restarts are used up, by places and rounds alike") {
    group.step(event::WorkerStarted{1});
    group.ends(0, kThree);
    CHECK(group.did<action::ReplaceWorker>() != nullptr);
    group.step(event::WorkerStarted{0});
    group.ends(1, kThree);
    CHECK(told(group) == "running: worker gone, say");
    group.ends(0, kThree);
    group.emptied();
    CHECK(told(group) == "finished: no timer, finish");
  }
  SECTION("an end with 0 is told too: the others must not wait for that one; and who came too late is no failure") {
    group.step(event::WorkerStarted{1});
    group.ends(0, kWell);
    CHECK(told(group) == "running: worker gone");
    CHECK(group.did<action::WorkerGone>()->well);
    group.ends(1, kOne);
    CHECK(told(group) == "stopping: worker gone, say, timer");
    group.emptied();
    CHECK(group.core.state() == S::finished);
  }
}

TEST_CASE("of several nodes, one whose worker failed goes on without telling the host") {
  GroupSettings settings = with_others(2);
  settings.survivors = 1;
  Group group(settings);
  group.ends(0, kThree);
  CHECK(told(group) == "running: worker gone, say");
  CHECK(group.did<action::Say>()->text == "rank 10 (local rank 0): exit code 3; 1 worker of this node left to go on");
  group.ends(1, kWell);
  group.emptied();
  CHECK(group.did<action::ReportOver>()->ok);
}

}  // namespace dtrain::launcher
