// Time, chance, faults and the run of one simulated job.
#include "test/sim/job_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

namespace dtrain::sim {

using namespace std::chrono_literals;

namespace {
constexpr auto kFaultsEnd = 90s;
constexpr auto kAllEnd = 2400s;  // joining 600 s, and then some rounds
constexpr int kMostEvents = 200000;
}  // namespace

World::World(std::uint64_t seed, Options options) : random_(seed), seed_(seed), options_(options) {
  across_hosts_ = pick(0, 1) == 1;
  settings_.job = "j";
  settings_.fixed_ranks = pick(0, 2) == 0;
  settings_.max_nodes = pick(1, 5);
  settings_.min_nodes = settings_.fixed_ranks ? settings_.max_nodes : pick(1, settings_.max_nodes);
  settings_.max_restarts = pick(0, 3);
  settings_.last_call_timeout = std::chrono::seconds(pick(1, 30));
  settings_.host_agent = "a0";
  settings_.awaits_others = across_hosts_ && !settings_.fixed_ranks && pick(0, 3) != 0;
  group_.agreed = true;
  group_.max_restarts = settings_.max_restarts;
  failing_ = options_.faults ? pick(0, 2) * 12 : 0;
  core_.emplace(settings_);
  const int nodes = settings_.max_nodes + (settings_.fixed_ranks || !options_.faults ? 0 : pick(0, 2));
  for (int i = 0; i < nodes; ++i) {
    Agent& a = add_agent(i);
    const bool late = options_.faults && i > 0 && pick(0, 3) == 0;
    at(now_ + between(0ms, late ? 40000ms : 300ms), [this, &a] { begin_to_join(a); });
  }
  if (options_.faults) plan_faults();
}

std::string World::describe() const {
  return fmt::format("seed {}: {}:{} nodes, {} restarts, {}, {}", seed_, settings_.min_nodes, settings_.max_nodes,
                     settings_.max_restarts, settings_.fixed_ranks ? "static" : "c10d",
                     !across_hosts_            ? "one host"
                     : settings_.awaits_others ? "across hosts, rejoin"
                                               : "across hosts");
}

Duration World::between(Duration low, Duration high) {
  return Duration(std::uniform_int_distribution<std::int64_t>(low.count(), high.count())(random_));
}

void World::at(MonoTime when, std::function<void()> what) {
  queue_.push({std::max(when, now_), ++order_, std::move(what)});
}

// In the agent's process: not while it hangs, never after it died.
void World::on(Agent& a, MonoTime when, std::function<void()> what) {
  at(when, [this, &a, what = std::move(what)] {
    if (!a.alive) return;
    if (a.hung) {
      a.backlog.push_back(what);
    } else {
      what();
    }
  });
}

void World::require(bool holds, const std::string& what) const {
  if (!holds) throw Broken(what);
}

void World::note(const std::string& line) {
  trace_ += fmt::format("{:9.3f} {}\n", std::chrono::duration<double>(now_.time_since_epoch()).count(), line);
  if (trace_.size() > 20000) trace_.erase(0, 10000);
}

Agent& World::add_agent(int node) {
  Agent& a = agents_.emplace_back();
  a.node = node;
  a.alive = true;
  a.clock = NodeClock::drawn(random_, now_, std::chrono::seconds(pick(10, 1'000'000)));
  a.info.job = "j";
  a.info.agent_id = fmt::format("a{}", agents_.size() - 1);
  a.info.host = fmt::format("h{}", node);
  a.info.topology = fmt::format("rack{}", node % 2);
  a.info.pid = int(agents_.size()) - 1;
  a.info.role = pick(0, 2) == 0 ? "b" : "a";
  a.info.workers = pick(1, 3);
  a.info.min_nodes = settings_.min_nodes;
  a.info.max_nodes = settings_.max_nodes;
  a.info.max_restarts = settings_.max_restarts;
  a.info.stop_ms = 38000;
  if (settings_.fixed_ranks) a.info.wanted_rank = node;
  launcher::GroupSettings group = group_;
  group.workers = a.info.workers;
  a.core.emplace(group);
  a.joining.emplace(launcher::JoinSettings{settings_.join_timeout, across_hosts_, settings_.awaits_others,
                                           settings_.fixed_ranks, pulse_.kill_grace(), ""});
  a.core->start(clock(a));
  ++tally_.agents;
  return a;
}

// ---- faults ---------------------------------------------------------------------------------------------------------

void World::plan_faults() {
  const int count = pick(0, 8);
  for (int i = 0; i < count; ++i) at(now_ + between(10ms, kFaultsEnd), [this] { one_fault(); });
}

Agent* World::any_alive() {
  std::vector<Agent*> alive;
  for (Agent& a : agents_)
    if (a.alive) alive.push_back(&a);
  return alive.empty() ? nullptr : alive[std::size_t(pick(0, int(alive.size()) - 1))];
}

void World::one_fault() {
  Agent* a = any_alive();
  if (a == nullptr || calm_) return;
  ++tally_.faults;
  const bool hosts = a == &agents_.front();
  const int what = pick(0, 99);
  if (what < 20) return hang(*a);
  if (what < 35) {
    note(fmt::format("{} is slow", a->info.agent_id));
    a->slow = 20;
    a->troubled = true;
  } else if (what < 55 && (!hosts || pick(0, 5) == 0)) {
    crash(*a, across_hosts_ && pick(0, 1) == 0);
  } else if (what < 65 && !hosts) {
    for (int times = pick(0, 3) == 0 ? 8 : 1, i = 0; i < times; ++i)  // a link that comes and goes
      at(now_ + i * between(2s, 5s), [this, a] { cut(*a); });
  } else if (what < 85 && !hosts && across_hosts_) {
    partition(*a);
  } else if (what < 95 && (!hosts || pick(0, 2) == 0)) {
    const int signal = pick(0, 1) == 0 ? SIGINT : SIGTERM;
    note(fmt::format("user stops {} with {}", a->info.agent_id, signal));
    feed(*a, launcher::event::StopSignal{signal});
    if (pick(0, 2) == 0)
      on(*a, now_ + between(10ms, 3000ms), [this, a] { feed(*a, launcher::event::StopSignal{SIGINT}); });
  } else if (what >= 95) {
    note("user stops all");
    for (Agent& each : agents_)
      on(each, now_ + between(0ms, 100ms), [this, &each] { feed(each, launcher::event::StopSignal{SIGINT}); });
  }
}

// Across hosts for less than the pulse bears: a hung agent cannot stop its workers, see docs/nodes.md.
void World::hang(Agent& a) {
  if (a.hung) return;
  note(fmt::format("{} hangs", a.info.agent_id));
  a.hung = true;
  a.troubled = a.troubled || !across_hosts_;
  at(now_ + (across_hosts_ ? between(10ms, 400ms) : between(10ms, 100000ms)), [this, &a] { resume(a); });
}

void World::resume(Agent& a) {
  a.hung = false;
  while (a.alive && !a.hung && !a.backlog.empty()) {
    auto what = std::move(a.backlog.front());
    a.backlog.pop_front();
    what();
  }
}

// The agent dies, and its guard ends the workers; or the machine dies and nobody closes the connection.
void World::crash(Agent& a, bool machine) {
  note(fmt::format("{} {}", a.info.agent_id, machine ? "loses its power" : "is killed"));
  a.troubled = true;
  a.alive = false;
  if (!a.processes.empty() || a.to_spawn > 0) rounds_[a.started_round].broken = true;
  if (machine) {
    a.processes.clear();
    a.to_spawn = 0;
    const auto link = links_.find(a.link);
    if (link != links_.end()) link->second.open = false;
  } else {
    at(now_ + between(5ms, 900ms), [this, &a] { a.to_spawn = 0, a.processes.clear(); });
    close_from_agent(a);
  }
  if (&a == &agents_.front()) {
    for (auto& [id, link] : links_) close_from_host(id);
  } else if (pick(0, 1) == 0) {
    const int node = a.node;
    at(now_ + between(3s, 20s), [this, node] {
      if (!calm_) begin_to_join(add_agent(node));
    });
  }
}

void World::partition(Agent& a) {
  const auto link = links_.find(a.link);
  if (link == links_.end()) return;
  const int way = pick(0, 2);
  note(fmt::format("{} is cut off, way {}", a.info.agent_id, way));
  a.troubled = true;
  link->second.up_silent = a.up_silent = way != 1;
  link->second.down_silent = a.down_silent = way != 0;
  at(now_ + between(100ms, 12000ms), [this, &a] { heal(a); });
}

void World::heal(Agent& a) {
  a.up_silent = a.down_silent = false;
  for (auto& [id, link] : links_)
    if (link.agent == &a) release(link);
}

void World::heal_all() {
  note("all is well from now on");
  calm_ = true;
  for (Agent& a : agents_) {
    a.slow = 1;
    if (a.hung) resume(a);
    heal(a);
  }
}

// ---- the run --------------------------------------------------------------------------------------------------------

bool World::all_finished() const {
  return std::all_of(agents_.begin(), agents_.end(), [](const Agent& a) { return !a.alive; });
}

void World::run() {
  at(now_ + kFaultsEnd, [this] { heal_all(); });
  for (int i = 0; !queue_.empty() && !(all_finished() && calm_); ++i) {
    require(i < kMostEvents, "it goes round and round");
    const Timed next = queue_.top();
    queue_.pop();
    now_ = next.when;
    require(now_ - MonoTime{} < kAllEnd, "the job does not end");
    next.what();
  }
  check_end();
}

void World::check_end() const {
  require(all_finished(), "some agent waits for ever");
  for (const Agent& a : agents_) {
    if (!a.outcome) continue;
    const auto& o = *a.outcome;
    if (o.cause == launcher::StopCause::success) {
      require(verdict_ && verdict_->how == JobEnd::success, a.info.agent_id + " says success, the job does not");
      // One that was cut off may have seen the end from outside.
      require(a.started_round < core_->round() || a.workers_ok, a.info.agent_id + " says success, its workers do not");
    }
    if (o.verdict) require(!o.verdict->reason.empty(), "an end without a reason");
    if (o.verdict && o.stop_signal == 0 && verdict_ && o.verdict->how == JobEnd::failure)
      require(o.verdict->exit_code == verdict_->exit_code, "the nodes differ in the exit code");
    if (o.verdict && o.verdict->how == JobEnd::failure)
      require(o.cause == launcher::StopCause::failure, "a failed job, but not here");
    const bool alone = o.stop_signal != 0 || a.troubled || o.first_failure || o.processes_left || calm_ == false;
    if (succeeded() && !alone && a.started_round == core_->round())
      require(o.cause == launcher::StopCause::success, a.info.agent_id + " does not know that the job went well");
  }
}

}  // namespace dtrain::sim
