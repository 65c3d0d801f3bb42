#include "launcher/agent_status.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "launcher/host_name.h"
#include "launcher/proc_info.h"

namespace dtrain::launcher {

void AgentStatus::open() {
  socket_ = StatusSocket::open(io_, [this](const StatusSocket::Reply& reply) {
    parts_.rounds.ask([this, reply](std::optional<JobFacts> rounds) {
      AgentFacts all = facts();
      all.rounds = std::move(rounds);
      reply(status_json(all));
    });
  });
  if (socket_)
    std::snprintf(parts_.notes.status_socket, sizeof parts_.notes.status_socket, "%s", socket_->path().c_str());
}

void AgentStatus::stepped() {
  if (std::exchange(state_, parts_.core.state()) != parts_.core.state()) since_ = clock_.now();
}

AgentFacts AgentStatus::facts() const {
  const auto age = [now = clock_.now()](MonoTime from) {
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
  const Assignment& place = parts_.record.place();
  facts.node_rank = place.node_rank;
  if (place.node_rank >= 0) facts.round = place.round;
  facts.nodes = place.nnodes;
  facts.world_size = place.world_size;
  facts.workers = parts_.record.workers_now(clock_.now());
  facts.decisions = decisions_.list(clock_.now());
  facts.several = parts_.spec.nodes.several();
  facts.memory = resident_bytes();
  parts_.rounds.fill(facts);
  return facts;
}

}  // namespace dtrain::launcher
