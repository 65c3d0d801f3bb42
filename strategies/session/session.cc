// Joining the job; see include/dtrain/session.h.
#include "dtrain/session.h"

#include <c10/util/env.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>

#include "strategies/collectives/collectives.h"
#include "strategies/collectives/texts.h"
#include "strategies/comm/backend/kept_memory.h"
#include "strategies/comm/backend/store_meeting.h"
#include "strategies/comm/base/call_origin.h"
#include "strategies/session/group_plan.h"
#include "strategies/session/session_state.h"
#include "strategies/session/uncaught.h"
#include "strategies/torch/compat.h"

namespace dtrain {

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
  return store;
}

}  // namespace

Session init(const InitOptions& options) { return init(parse_worker_env(process_env()), options); }

Session init(const WorkerEnv& env, const InitOptions& options) {
  tell_uncaught_exceptions();
  const at::Device device = device_for(env.local_rank);  // who has none says so before others count on it
  auto groups = std::make_shared<GroupsOfSession>();
  groups->env = env;
  const auto store = connect_store(env, options);
  groups->timeout = options.collective_timeout;
  if (!torch::cuda::is_available()) {
    keep_freed_memory();
    // Ddp's buckets in memory that the host's ranks share. With a GPU the variable would change NCCL's buckets too.
    c10::utils::set_env("DDP_DISABLE_COMM_MEM", "0", false);
  }
  if (!env.member.empty()) {
    static std::atomic<bool> once{false};
    if (once.exchange(true))
      throw ConfigError("dtrain: under --survivors a process calls init() once; reform() forms the groups anew");
    Session session(std::make_unique<Session::State>(std::move(groups), Group(), device));
    session.state_->survivors =
        std::make_unique<SurvivorsInStore>(store, Member{env.member, env.group_rank, env.local_rank}, env.world_size);
    // Who took a place waits for the others to come to the end of a step.
    const auto timeout =
        takes_a_place(env.member) ? std::max(options.join_timeout, options.collective_timeout) : options.join_timeout;
    joining(env, [&] { form_survivors(*session.state_, timeout); });
    return session;
  }
  // It may outlive a round, and a session: their keys must not meet those of the next.
  groups->store = joining(env, [&] {
    return fresh_keys(c10::make_intrusive<c10d::PrefixStore>("dtrain", store), env.rank, env.world_size);
  });
  Group world = groups->form_world();
  return Session(std::make_unique<Session::State>(std::move(groups), std::move(world), device));
}

std::vector<std::string> agree(const Session::State& session, const std::string& call, const std::string& own) {
  const CallsOf its(CallOrigin::Kind::new_group);
  std::vector<std::string> calls = all_gather_texts(session.world.process_group(), call + '\n' + own);
  std::vector<std::string> brought;
  for (std::string& text : calls) {
    const std::size_t end = text.rfind('\n');  // what ranks bring has none
    brought.push_back(text.substr(end + 1));
    text.resize(end);
  }
  const std::string complaint = disagreement(calls);
  if (!complaint.empty()) throw ConfigError(complaint);
  return brought;
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

const WorkerEnv& Session::env() const { return state_->groups->env; }

const TrainingConfig& Session::training_config() {
  state_->config_known = true;
  return env().training;
}

void Session::require_config_known() const {
  const std::vector<std::string>& keys = env().training.keys;
  if (state_->config_known || keys.empty()) return;
  throw ConfigError(
      fmt::format("dtrain: the config (--strategy, DTRAIN_STRATEGY) has {}, and this program does not read it; remove "
                  "these keys, or let the program call Session::training_config() (dtrain/training_config.h)",
                  fmt::join(keys, ", ")));
}

const Group& Session::world_for_ddp(const char* wrapper) const {
  require_config_known();
  const Strategy& strategy = env().strategy;
  if (!strategy.state_folder.empty()) {
    throw ConfigError(fmt::format(
        "dtrain: the strategy says where the optimizer's state lies (state_folder, offload_optimizer), and this "
        "program trains with {}, which leaves it in memory. Use dtrain::Parallel (dtrain/parallel.h), or remove the "
        "key",
        wrapper));
  }
  if (strategy.kind != StrategyKind::ddp) {
    throw ConfigError(
        fmt::format("dtrain: the strategy is {}, and this program trains with {}, which is ddp and nothing else. Use "
                    "dtrain::Parallel (dtrain/parallel.h), or start it without --strategy and DTRAIN_STRATEGY",
                    name_of(strategy.kind), wrapper));
  }
  if (strategy != Strategy{}) {
    throw ConfigError(fmt::format(
        "dtrain: the strategy has keys of ddp (bucket_bytes, find_unused_parameters), and this program trains with {}, "
        "which has options of its own. Use dtrain::Parallel (dtrain/parallel.h), or remove the keys",
        wrapper));
  }
  return world();
}

// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), as a hash: seeds
// that are near each other give numbers that are not.
void seed_step(const Session& session, std::uint64_t seed, std::int64_t step) {
  std::uint64_t mixed = seed;
  for (const std::uint64_t part : {static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(session.rank())}) {
    mixed += 0x9e3779b97f4a7c15ULL * (part + 1);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
    mixed ^= mixed >> 31;
  }
  torch::manual_seed(mixed);
}

torch::Device Session::device() const { return state_->device; }
const Group& Session::world() const { return state_->world; }

const c10::intrusive_ptr<c10d::Store>& Session::store() const {
  TORCH_CHECK(state_->groups->store, "dtrain: the session was shut down");
  return state_->groups->store;
}

Group Session::new_group(const std::vector<int>& ranks, const GroupSettings& settings) {
  agree(*state_, call_of(ranks));
  const std::string why_not = why_no_group(ranks, world_size());
  if (!why_not.empty()) throw ConfigError(why_not);
  return state_->groups->form(ranks, settings);
}

torch::Tensor Session::empty_shared(torch::IntArrayRef sizes, torch::TensorOptions options) const {
  if (!options.device().is_cpu()) return torch::empty(sizes, options);
  const auto plain = options.requires_grad(false);
  const auto count = torch::empty(sizes, plain.device(torch::kMeta)).numel();  // refuses what is no shape
  return dtrain::empty_shared(group(), count, plain).view(sizes).set_requires_grad(options.requires_grad());
}

Group Session::split(std::optional<int> colour, const GroupSettings& settings) {
  return state_->groups->form(same_colour(agree(*state_, "split()", text_of(colour)), rank()), settings);
}

void Session::barrier() { world().barrier(); }
void Session::all_reduce(torch::Tensor tensor, c10d::ReduceOp op) {
  world().all_reduce(std::move(tensor), std::move(op));
}
void Session::broadcast(torch::Tensor tensor, int root) { world().broadcast(std::move(tensor), root); }

void Session::shutdown() {
  const CallsOf its(CallOrigin::Kind::shutdown);
  barrier();
  state_->groups->shutdown();
}

}  // namespace dtrain
