// See process_groups.h and include/dtrain/group.h.
#include "strategies/session/process_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include "strategies/collectives/collectives.h"
#include "strategies/comm/base/call_origin.h"
#include "strategies/comm/base/own_process.h"
#include "strategies/comm/nccl/nccl.h"
#include "strategies/session/group_plan.h"
#include "strategies/torch/compat.h"

namespace dtrain {

at::Device device_for(int local_rank) {
  if (!nccl_available()) return at::kCPU;
  const int gpus = static_cast<int>(torch::cuda::device_count());
  return {at::kCUDA, static_cast<c10::DeviceIndex>(gpu_for(local_rank, gpus))};
}

FormedGroup form_process_group(const c10::intrusive_ptr<c10d::Store>& keys, const GroupPlace& place,
                               const std::string& name) {
  using Kind = c10d::ProcessGroup::BackendType;
  FormedGroup made;
  made.process = own_process();
  made.names = place.names;
  made.device = device_for(place.local_rank);
  const auto cpu_keys = c10::make_intrusive<c10d::PrefixStore>("shm", keys);
  made.cpu = c10::make_intrusive<CpuBackend>(cpu_keys, place.rank, place.ranks, place.timeout, place.names);
  made.group = c10::make_intrusive<c10d::ProcessGroup>(keys, place.rank, place.ranks);
  made.group->setBackend(c10::DeviceType::CPU, Kind::CUSTOM, made.cpu);
  made.group->setDefaultBackend(Kind::CUSTOM);
  if (nccl_available()) {
    const auto nccl_keys = c10::make_intrusive<c10d::PrefixStore>("nccl", keys);
    made.nccl = make_nccl_backend(nccl_keys, place.rank, place.ranks, made.device, place.timeout, place.names);
    made.group->setBackend(c10::DeviceType::CUDA, Kind::NCCL, made.nccl);
  }
  made.group->setGroupName(name);
  c10d::unregister_process_group(name);  // of an earlier session
  c10d::register_process_group(name, made.group);
  return made;
}

void FormedGroup::shutdown() {
  cpu->shutdown();
  if (nccl) nccl->shutdown();
}

void FormedGroup::stop() {
  if (cpu) cpu->stop();
}

void FormedGroup::leave() {
  if (cpu) cpu->leave();
  if (!nccl) return;
  // In a forked child its threads are not there, and the end of it would wait for them.
  if (process != own_process()) return static_cast<void>(nccl.release());
  // Its kernels would wait for the others, and theirs for this rank.
  try {
    nccl->abort();
  } catch (...) {  // NOLINT(bugprone-empty-catch): this rank is leaving after an error of its own
  }
}

Group GroupsOfSession::form_world() {
  std::vector<int> ranks(static_cast<std::size_t>(env.world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto keys = c10::make_intrusive<c10d::PrefixStore>("world", store);
  return add({"world", std::move(ranks), env.rank, "dtrain_world", timeout}, keys,
             {env.rank, env.world_size, env.local_rank, {}, timeout});
}

Group GroupsOfSession::form(const std::vector<int>& ranks, const GroupSettings& settings) {
  ++counted;
  Group::State state{settings.name.empty() ? fmt::format("group {}", counted) : settings.name, ranks};
  const auto own = std::find(ranks.begin(), ranks.end(), env.rank);
  if (own == ranks.end()) return Group(std::make_shared<Group::State>(std::move(state)));
  state.rank = static_cast<int>(own - ranks.begin());
  state.timeout = settings.collective_timeout.value_or(timeout);
  // Those that are formed at once have no rank in common.
  const std::string key = fmt::format("groups/{}/{}", counted, ranks.front());
  state.c10d_name = fmt::format("dtrain_group_{}_{}", counted, ranks.front());
  const GroupPlace place{
      state.rank, static_cast<int>(ranks.size()), env.local_rank, {state.name, ranks}, state.timeout};
  return add(std::move(state), c10::make_intrusive<c10d::PrefixStore>(key, store), place);
}

Group GroupsOfSession::add(Group::State state, const c10::intrusive_ptr<c10d::Store>& keys, const GroupPlace& place) {
  state.keys = keys;
  state.session = weak_from_this();
  state.formed = joining(env, [&] { return form_process_group(keys, place, state.c10d_name); });
  Group group(std::make_shared<Group::State>(std::move(state)));
  const std::lock_guard lock(mutex);
  formed.push_back(group);
  return group;
}

FormedGroup GroupsOfSession::form_apart(const Group& group, const std::string& purpose,
                                        std::chrono::milliseconds timeout) {
  Group::State& own = group.checked_state();
  const auto session = own.session.lock();
  TORCH_CHECK(session, "dtrain: the session has ended");
  const std::string name = fmt::format("{}_{}", purpose, ++own.apart);
  const GroupPlace place{own.rank, group.size(), session->env.local_rank, own.formed.names, timeout};
  return joining(session->env, [&] {
    return form_process_group(c10::make_intrusive<c10d::PrefixStore>(name, own.keys), place,
                              fmt::format("{}_{}", own.c10d_name, name));
  });
}

void GroupsOfSession::shutdown() {
  const std::lock_guard lock(mutex);
  for (; !formed.empty(); formed.pop_back()) {
    Group::State& state = *formed.back().state_;
    if (!state.formed.group) continue;
    state.formed.shutdown();
    state.formed = {};
    c10d::unregister_process_group(state.c10d_name);
  }
  store.reset();
}

void GroupsOfSession::leave() noexcept {
  // A Ddp may hold them longer; the others must know at once that this rank is gone. All stop before one is waited for:
  // its callbacks may wait for another.
  const std::lock_guard lock(mutex);
  for (const Group& group : formed) group.state_->formed.stop();
  for (; !formed.empty(); formed.pop_back()) {
    formed.back().state_->formed.leave();
    c10d::unregister_process_group(formed.back().state_->c10d_name);
  }
}

int Group::rank() const { return state_ ? state_->rank : -1; }

const std::vector<int>& Group::ranks() const {
  static const std::vector<int> none;
  return state_ ? state_->ranks : none;
}

const std::string& Group::name() const {
  static const std::string none;
  return state_ ? state_->name : none;
}

Group::State& Group::checked_state() const {
  TORCH_CHECK(state_,
              "dtrain: this Group is empty; use session.world(), or what new_group(), split() or a Mesh returned");
  TORCH_CHECK(rank() >= 0, "dtrain: this rank is not in the group '", name(), "' (ranks ", text_of(ranks()), ")");
  TORCH_CHECK(state_->formed.group, "dtrain: the group '", name(), "' has ended, or the session was shut down");
  return *state_;
}

const c10::intrusive_ptr<c10d::ProcessGroup>& Group::process_group() const { return checked_state().formed.group; }

void Group::barrier() const { dtrain::barrier(process_group()); }

void Group::all_reduce(torch::Tensor tensor, c10d::ReduceOp op) const {
  dtrain::all_reduce(process_group(), tensor, std::move(op));
}

void Group::broadcast(torch::Tensor tensor, int root) const { dtrain::broadcast(process_group(), tensor, root); }

void Group::all_gather(torch::Tensor output, torch::Tensor input) const {
  dtrain::all_gather(process_group(), output, input);
}

void Group::reduce_scatter(torch::Tensor output, torch::Tensor input, c10d::ReduceOp op) const {
  dtrain::reduce_scatter(process_group(), output, input, std::move(op));
}

void Group::all_to_all(torch::Tensor output, torch::Tensor input) const {
  dtrain::all_to_all(process_group(), output, input);
}

void Group::send(torch::Tensor tensor, int to, int tag) const { dtrain::send(process_group(), tensor, to, tag); }

void Group::recv(torch::Tensor tensor, int from, int tag) const { dtrain::recv(process_group(), tensor, from, tag); }

int Group::recv_any(torch::Tensor tensor, int tag) const { return dtrain::recv_any(process_group(), tensor, tag); }

Group Group::again(const GroupSettings& settings) const {
  State& own = checked_state();
  const auto session = own.session.lock();
  TORCH_CHECK(session, "dtrain: the session has ended");
  ++own.copies;
  State state{settings.name.empty() ? fmt::format("{} {}", own.name, own.copies + 1) : settings.name, own.ranks,
              own.rank, fmt::format("{}_{}", own.c10d_name, own.copies + 1),
              settings.collective_timeout.value_or(own.timeout)};
  const GroupPlace place{own.rank, size(), session->env.local_rank, {state.name, own.ranks}, state.timeout};
  const auto keys = c10::make_intrusive<c10d::PrefixStore>(fmt::format("again/{}", own.copies), own.keys);
  return session->add(std::move(state), keys, place);
}

void Group::end() const {
  State& own = checked_state();
  const auto session = own.session.lock();
  TORCH_CHECK(session && own.c10d_name != "dtrain_world",
              "dtrain: the group of all ranks ends with the session; call Session::shutdown");
  {
    const CallsOf its(CallOrigin::Kind::group_end);
    barrier();
  }
  own.formed.shutdown();
  own.formed = {};
  c10d::unregister_process_group(own.c10d_name);
  const std::lock_guard lock(session->mutex);
  std::erase_if(session->formed, [this](const Group& other) { return other.state_ == state_; });
}

}  // namespace dtrain
