// A node of a simulated job: GroupCore, and a guard and workers that answer it.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "test/sim/job_world.h"

namespace dtrain::sim {

using namespace std::chrono_literals;
namespace event = launcher::event;
namespace action = launcher::action;
using launcher::ExitStatus;

Fate World::random_fate() {
  const int n = pick(0, 99);
  if (calm_ || !options_.faults) return Fate::succeeds;
  if (n < failing_) return Fate::fails;
  if (n >= 98) return Fate::never_starts;
  if (n >= 95) return Fate::ignores_term;
  if (n >= 92) return Fate::leaves_daemon;
  if (n >= 91) return Fate::unkillable;
  return Fate::succeeds;
}

void World::feed(Agent& a, const launcher::GroupEvent& e) {
  if (a.finished) return;
  note(fmt::format("  {} {} <- {}", a.info.agent_id, launcher::to_string(a.core->state()), launcher::to_string(e)));
  if (std::holds_alternative<event::StopSignal>(e)) a.user_stop = true;
  for (const auto& act : a.core->step(e, clock(a))) {
    if (a.alive && !a.finished) carry_out(a, act);
  }
}

void World::carry_out(Agent& a, const launcher::GroupAction& act) {
  if (const auto* round = std::get_if<action::StartRound>(&act)) return start_round(a, *round);
  if (const auto* s = std::get_if<action::SignalGroups>(&act)) return signal(a, s->signal, false);
  if (const auto* s = std::get_if<action::SignalRest>(&act)) return signal(a, s->signal, true);
  if (std::holds_alternative<action::KillContainment>(act)) return kill(a);
  if (const auto* timer = std::get_if<action::ArmTimer>(&act)) {
    require(timer->at > clock(a) || a.troubled, "a timer in the past");
    on(a, a.clock.when(timer->at), [this, &a, generation = ++a.timer] {
      if (generation == a.timer) feed(a, event::TimerFired{});
    });
  } else if (std::holds_alternative<action::CancelTimer>(act)) {
    ++a.timer;
  } else if (const auto* failed = std::get_if<action::ReportFailure>(&act)) {
    require(failed->round == a.started_round && !failed->status.success(), "a failure that was none");
    say(a, msg::Failed{failed->round, failed->local_rank, "a worker failed", launcher::exit_code_of(failed->status),
                       failed->status.kind == ExitStatus::Kind::not_started});
  } else if (const auto* over = std::get_if<action::ReportOver>(&act)) {
    require(a.processes.empty() && a.to_spawn == 0, "over, but workers are left");
    require(!over->ok || a.workers_ok, "workers failed, but it says that all went well");
    check_stop_time(a);
    a.stopping_since.reset();
    a.in_round = false;
    if (a.joining->hostless()) return begin_to_join(a);
    say(a, msg::Over{over->round, over->ok, over->left});
  } else if (const auto* leaving = std::get_if<action::ReportLeaving>(&act)) {
    require(leaving->signal == SIGINT || leaving->signal == SIGTERM, "a stop that nobody asked for");
    say(a, msg::Leaving{leaving->signal, leaving->running});
  } else if (const auto* f = std::get_if<action::Finish>(&act)) {
    finish(a, f->outcome);
  }
}

// ---- the guard ------------------------------------------------------------------------------------------------------

void World::start_round(Agent& a, const action::StartRound& start) {
  require(a.processes.empty() && a.to_spawn == 0, "old workers are left");
  require(a.place && start.round == a.place->round && start.round > a.started_round, "not the round that was opened");
  require(!a.over, "a round after the end");
  require(!a.user_stop, "a round on a node that leaves");
  a.started_round = start.round;
  a.workers_ok = true;
  a.stopping_since.reset();
  a.output_open = true;
  a.empty_told = false;
  a.spawn_broken = false;
  a.to_spawn = a.info.workers;
  for (int i = 0; i < a.info.workers; ++i) at(now_ + between(1ms, 20ms) * (i + 1), [this, &a] { spawn_one(a); });
}

void World::guard_says(Agent& a, const launcher::GroupEvent& e) {
  a.guard_sent = std::max(a.guard_sent, now_ + between(20us, 2ms) * a.slow);
  on(a, a.guard_sent, [this, &a, e] { feed(a, e); });
}

void World::spawn_one(Agent& a) {
  if (a.to_spawn == 0) return;
  const int local_rank = a.info.workers - a.to_spawn--;
  const Fate fate = random_fate();
  a.spawn_broken = a.spawn_broken || fate == Fate::never_starts;
  Round& round = rounds_.at(a.started_round);
  if (a.spawn_broken) {
    round.broken = true;
    a.workers_ok = false;
    guard_says(a, event::WorkerNotStarted{local_rank, ExitStatus::not_started(launcher::SpawnStep::exec, ENOENT)});
    return check_empty(a);
  }
  // No two rounds at once, here nor anywhere that the host knows to be stopped.
  for (const Agent& other : agents_) {
    for (const Process& p : other.processes) {
      const bool known = &other == &a || across_hosts_;
      if (known && p.fate != Fate::unkillable)
        require(p.round >= a.started_round || (p.local_rank < 0 && &other != &a),
                fmt::format("workers of two rounds at once, at {} and {}", a.info.agent_id, other.info.agent_id));
    }
  }
  const int number = ++last_process_;
  a.processes.push_back({number, a.started_round, local_rank, fate, false});
  ++round.started;
  guard_says(a, event::WorkerStarted{local_rank});
  at(now_ + between(5ms, 20000ms), [this, &a, number] { works(a, number); });
}

Process* World::find(Agent& a, int number) {
  const auto it =
      std::find_if(a.processes.begin(), a.processes.end(), [&](const Process& p) { return p.number == number; });
  return it == a.processes.end() ? nullptr : &*it;
}

void World::works(Agent& a, int number) {
  const Process* p = find(a, number);
  if (p == nullptr || p->told) return;
  const Round& round = rounds_.at(p->round);
  if (p->fate == Fate::fails) return ends(a, number, ExitStatus::exited(3));
  if (round.broken) return;  // it waits for one that is no more, and would do so for ever
  if (round.started < round.world) return at(now_ + 1s, [this, &a, number] { works(a, number); });
  ends(a, number, ExitStatus::exited(0));
}

void World::ends(Agent& a, int number, const ExitStatus& status) {
  Process* found = find(a, number);
  if (found == nullptr) return;
  const Process p = *found;
  a.processes.erase(a.processes.begin() + (found - a.processes.data()));
  if (p.local_rank >= 0) {
    if (!status.success()) a.workers_ok = false, rounds_.at(p.round).broken = true;
    if (p.fate == Fate::leaves_daemon && status.success())
      a.processes.push_back({++last_process_, p.round, -1, Fate::succeeds, false});
    guard_says(a, event::WorkerExited{p.local_rank, status});
  }
  check_rest(a);
  check_empty(a);
}

void World::check_rest(Agent& a) {
  const auto only_rest = [&a, round = a.started_round] {
    return a.started_round == round && a.to_spawn == 0 && !a.processes.empty() &&
           std::all_of(a.processes.begin(), a.processes.end(), [](const Process& p) { return p.local_rank < 0; });
  };
  if (!only_rest()) return;
  at(now_ + 200ms, [this, &a, only_rest] {
    if (only_rest()) guard_says(a, event::RestLeft{});
  });
}

void World::check_empty(Agent& a) {
  if (a.to_spawn != 0 || !a.processes.empty()) return;
  guard_says(a, event::ContainmentEmpty{});
  if (std::exchange(a.output_open, false)) guard_says(a, event::OutputClosed{});
}

void World::signal(Agent& a, int signal, bool rest) {
  if (!a.stopping_since) a.stopping_since = now_;
  at(now_ + 1ms, [this, &a, signal, rest] {
    for (Process& p : a.processes) {
      if (p.local_rank < 0 && !rest) continue;
      if (p.fate == Fate::ignores_term || p.fate == Fate::unkillable || p.told) continue;
      p.told = true;
      at(now_ + between(1ms, pick(0, 9) == 0 ? 4000ms : 200ms),
         [this, &a, number = p.number, signal] { ends(a, number, ExitStatus::signaled(signal, false)); });
    }
  });
}

void World::kill(Agent& a) {
  at(now_ + 1ms, [this, &a] {
    while (a.to_spawn > 0) spawn_one(a);
    std::vector<int> numbers;
    for (const Process& p : a.processes) {
      if (p.fate != Fate::unkillable) numbers.push_back(p.number);
    }
    for (const int number : numbers) ends(a, number, ExitStatus::signaled(SIGKILL, false));
    check_empty(a);
  });
}

void World::check_stop_time(Agent& a) {
  if (!a.stopping_since || a.troubled || a.hung) return;
  const Duration longest = group_.shutdown_timeout + group_.kill_timeout + 3s;
  require(now_ - *a.stopping_since <= longest, "it took too long to stop");
}

void World::finish(Agent& a, const launcher::Outcome& outcome) {
  note(fmt::format("  {} ends: {}", a.info.agent_id, outcome.reason));
  check_stop_time(a);
  const bool stuck =
      std::any_of(a.processes.begin(), a.processes.end(), [](const Process& p) { return p.fate == Fate::unkillable; });
  require(a.to_spawn == 0 && (a.processes.empty() || (stuck && outcome.processes_left)), "it leaves workers behind");
  require(outcome.cause != launcher::StopCause::failure || outcome.first_failure || outcome.verdict,
          "a failure of nobody");
  require(!outcome.reason.empty(), "an end without a reason");
  a.finished = true;
  a.outcome = outcome;
  if (&a == &agents_.front()) close_host(outcome);
  close_from_agent(a);
  a.alive = false;
  a.processes.clear();
}

}  // namespace dtrain::sim
