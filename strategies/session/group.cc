// See group.h.
#include "strategies/session/group.h"

#include "strategies/comm/nccl.h"

namespace dtrain {

FormedGroup form_group(const c10::intrusive_ptr<c10d::Store>& keys, const WorkerEnv& env, const std::string& name,
                       std::chrono::milliseconds timeout) {
  using Kind = c10d::ProcessGroup::BackendType;
  FormedGroup made;
  const auto cpu_keys = c10::make_intrusive<c10d::PrefixStore>("shm", keys);
  made.cpu = c10::make_intrusive<ShmBackend>(cpu_keys, env.rank, env.world_size, timeout);
  made.group = c10::make_intrusive<c10d::ProcessGroup>(keys, env.rank, env.world_size);
  made.group->setBackend(c10::DeviceType::CPU, Kind::CUSTOM, made.cpu);
  made.group->setDefaultBackend(Kind::CUSTOM);
#ifdef DTRAIN_WITH_NCCL
  if (nccl_available()) {
    const auto nccl_keys = c10::make_intrusive<c10d::PrefixStore>("nccl", keys);
    made.group->setBackend(c10::DeviceType::CUDA, Kind::NCCL,
                           make_nccl_backend(nccl_keys, env.rank, env.world_size, env.local_rank, timeout));
  }
#endif
  made.group->setGroupName(name);
  return made;
}

void FormedGroup::shutdown() {
  cpu->shutdown();
#ifdef DTRAIN_WITH_NCCL
  if (nccl_available()) group->getBackend(c10::DeviceType::CUDA)->shutdown();
#endif
}

}  // namespace dtrain
