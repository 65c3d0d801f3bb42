// The ranks that are left go on; see Session::reform() in include/dtrain/session.h.
#include <algorithm>

#include "strategies/collectives/collectives.h"
#include "strategies/comm/nccl/nccl.h"
#include "strategies/session/session_state.h"

namespace dtrain {
namespace {

// This process in the world that has met.
WorkerEnv env_in(WorkerEnv env, const SurvivorsInStore& survivors) {
  env.rank = survivors.rank();
  env.world_size = static_cast<int>(survivors.world().members.size());
  env.local_world_size = static_cast<int>(survivors.world().local_ranks(env.group_rank).size());
  return env;
}

}  // namespace

void form_survivors(Session::State& session, std::chrono::milliseconds timeout) {
  const std::shared_ptr<GroupsOfSession> before = session.groups;
  session.survivors->meet(timeout, [&](const SurvivorsInStore::StorePtr& keys) {
    auto groups = std::make_shared<GroupsOfSession>();
    groups->env = env_in(before->env, *session.survivors);
    groups->store = keys;
    groups->timeout = before->timeout;
    session.world = groups->form_world();
    session.groups = std::move(groups);
  });
}

void Session::reform() {
  if (!state_->survivors)
    throw ConfigError(
        "dtrain: reform() needs a launcher that lets ranks go on when one dies; start the program by dtrain run "
        "--survivors N");
  if (nccl_available())
    throw ConfigError("dtrain: reform() forms groups of CPU tensors alone, and this process has GPUs");
  state_->groups->leave();
  form_survivors(*state_, state_->groups->timeout);
}

bool Session::joiner_waits() {
  if (!state_->survivors) return false;
  auto waits = torch::zeros({1}, torch::kUInt8);
  if (is_first()) waits[0] = state_->survivors->joiners_wait();
  broadcast(waits);
  return waits.item<std::uint8_t>() != 0;
}

}  // namespace dtrain
