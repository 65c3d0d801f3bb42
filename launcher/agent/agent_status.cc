#include "launcher/agent/agent_status.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "launcher/base/host_name.h"
#include "launcher/process/proc_info.h"
#include "launcher/status/status_folder.h"

namespace dtrain::launcher {

std::string AgentStatus::open() {
  socket_ = StatusSocket::open(io_, [this](const StatusSocket::Reply& reply) {
    parts_.rounds.ask([this, reply](std::optional<JobFacts> rounds) {
      AgentFacts all = facts();
      all.rounds = std::move(rounds);
      reply(status_json(all));
    });
  });
  if (socket_) note_path(parts_.notes.status_socket, socket_->path());
  const std::string usual = status_folders().front();
  const auto good = check_status_folder(usual);
  if (socket_ && socket_->path().starts_with(usual + "/")) return "";
  const std::string why = good ? usual + " cannot be used" : good.error().message;
  if (!socket_) return "`dtrain status` will not show this job: " + why;
  return fmt::format("{}: the socket for `dtrain status` is {}", why, socket_->path());
}

void AgentStatus::stepped() {
  if (std::exchange(state_, parts_.core.state()) != parts_.core.state()) since_ = SteadyClock::now();
  posts_.stepped();
}

// How it does at this moment: its own process, not what it has started.
void AgentStatus::look_at(WorkerNow& worker) {
  const auto look = worker.alive ? look_at_process(worker.pid) : std::nullopt;
  if (!look) return;
  const MonoTime now = SteadyClock::now();
  auto& known = activities_.try_emplace(worker.pid, now - worker.age).first->second;
  worker.cpu = look->cpu;
  worker.idle = std::min(worker.silent, known.idle(look->cpu, now));
  worker.state = activity(look->state, *worker.idle);
}

AgentFacts AgentStatus::facts() {
  const auto age = [now = SteadyClock::now()](MonoTime from) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - from);
  };
  AgentFacts facts;
  facts.job = parts_.spec.run_id;
  facts.host = short_hostname();
  facts.program = parts_.spec.program;
  facts.agent = ::getpid();
  facts.age = age(begun_);
  facts.phase = to_string(parts_.core.state());
  facts.phase_age = age(since_);
  facts.restarts = parts_.core.restarts();
  facts.max_restarts = parts_.spec.max_restarts;
  const auto& place = parts_.workers.place();
  if (place) facts.round = place->round;
  facts.node_rank = place ? place->node_rank : -1;
  facts.nodes = place ? place->nnodes : 1;
  facts.world_size = place ? place->world_size : 1;
  facts.workers = parts_.workers.now(SteadyClock::now());
  std::erase_if(activities_, [&](const auto& known) {
    return std::none_of(facts.workers.begin(), facts.workers.end(),
                        [&](const WorkerNow& w) { return w.alive && w.pid == known.first; });
  });
  for (WorkerNow& worker : facts.workers) look_at(worker);
  facts.decisions = decisions_.list(SteadyClock::now());
  facts.several = parts_.spec.nodes.several();
  facts.memory = resident_bytes();
  parts_.rounds.fill(facts);
  return facts;
}

}  // namespace dtrain::launcher
