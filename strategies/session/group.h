#pragma once
// The process groups that a session makes: CPU tensors through CommGroup, CUDA tensors through NCCL.
#include "dtrain/worker_env.h"
#include "strategies/comm/shm_backend.h"

namespace dtrain {

struct FormedGroup {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  c10::intrusive_ptr<ShmBackend> cpu;

  // After a barrier.
  void shutdown();
};

// Collective, of all ranks. `keys` are the group's own keys in the store. Throws as CommGroup's form_group() does.
FormedGroup form_group(const c10::intrusive_ptr<c10d::Store>& keys, const WorkerEnv& env, const std::string& name,
                       std::chrono::milliseconds timeout);

}  // namespace dtrain
