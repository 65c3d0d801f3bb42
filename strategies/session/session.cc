// Joining the job; see include/dtrain/session.h.
#include "dtrain/session.h"

#include <fmt/format.h>

#include "strategies/comm/nccl.h"
#include "strategies/session/group.h"
#include "strategies/torch/collectives.h"
#include "strategies/torch/compat.h"

namespace dtrain {

struct Session::State {
  WorkerEnv env;
  c10::intrusive_ptr<c10d::Store> store;
  FormedGroup world;
  torch::Device device{torch::kCPU};

  // A Ddp may hold the group longer; the others must know at once that this rank is gone.
  ~State() {
    if (world.cpu) world.cpu->leave();
  }
};

namespace {

c10::intrusive_ptr<c10d::Store> connect_store(const WorkerEnv& env, const InitOptions& options) {
  if (env.world_size == 1) return c10::make_intrusive<c10d::HashStore>();
  c10d::TCPStoreOptions settings;
  settings.port = env.master_port;
  // Under a launcher whose agent serves the store it is up already; otherwise rank 0 hosts it.
  settings.isServer = !env.agent_store && env.rank == 0;
  settings.waitWorkers = false;
  settings.timeout = options.join_timeout;
  c10::intrusive_ptr<c10d::Store> store;
  try {
    store = c10::make_intrusive<c10d::TCPStore>(env.master_addr, settings);
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("dtrain: rank {} cannot {} the store at {}:{} (MASTER_ADDR, MASTER_PORT): {}",
                                         env.rank, settings.isServer ? "open" : "reach", env.master_addr,
                                         env.master_port, short_reason(error)));
  }
  // A store may outlive a round: its keys must not meet those of the next.
  return c10::make_intrusive<c10d::PrefixStore>(fmt::format("dtrain/round_{}", env.restart_count), store);
}

torch::Device device_for([[maybe_unused]] const WorkerEnv& env) {
#ifdef DTRAIN_WITH_NCCL
  if (nccl_available()) return {torch::kCUDA, static_cast<c10::DeviceIndex>(env.local_rank)};
#endif
  return {torch::kCPU};
}

}  // namespace

Session init(const InitOptions& options) { return init(parse_worker_env(process_env()), options); }

Session init(const WorkerEnv& env, const InitOptions& options) {
  auto state = std::make_unique<Session::State>();
  state->env = env;
  state->store = connect_store(env, options);
  try {
    const auto keys = c10::make_intrusive<c10d::PrefixStore>("world", state->store);
    state->world = form_group(keys, env, "dtrain_world", options.collective_timeout);
  } catch (const CollectiveError&) {
    throw;
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("dtrain: rank {} of {} could not join the group: {}", env.rank, env.world_size,
                                         short_reason(error)));
  }
  state->device = device_for(env);
  return Session(std::move(state));
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

const WorkerEnv& Session::env() const { return state_->env; }
torch::Device Session::device() const { return state_->device; }

const c10::intrusive_ptr<c10d::ProcessGroup>& Session::group() const {
  TORCH_CHECK(state_->world.group, "dtrain: the session was shut down");
  return state_->world.group;
}

const c10::intrusive_ptr<c10d::Store>& Session::store() const {
  TORCH_CHECK(state_->store, "dtrain: the session was shut down");
  return state_->store;
}

void Session::barrier() { dtrain::barrier(group()); }

void Session::all_reduce(torch::Tensor tensor, c10d::ReduceOp op) {
  dtrain::all_reduce(group(), tensor, std::move(op));
}

torch::Tensor Session::empty_shared(torch::IntArrayRef sizes, torch::TensorOptions options) const {
  if (!options.device().is_cpu()) return torch::empty(sizes, options);
  return group()->getBackend(torch::kCPU)->allocateTensor(c10::multiply_integers(sizes), options).view(sizes);
}

void Session::broadcast(torch::Tensor tensor, int root) { dtrain::broadcast(group(), tensor, root); }

void Session::shutdown() {
  barrier();
  state_->world.shutdown();
  state_->world.group.reset();
  state_->store.reset();
}

}  // namespace dtrain
