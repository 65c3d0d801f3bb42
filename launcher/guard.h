#pragma once
// The guard: the parent of the workers. A small single-threaded process, forked by the agent before it has threads or
// sockets. It is a subreaper (or the init of a PID namespace), so everything that workers start stays below it, and "no
// children" means exactly "nothing left". It does what the agent says (guard_protocol.h); when the agent is gone it
// kills everything, waits until nothing is left, removes the job's cgroup and ends.
#include <sys/resource.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "launcher/attached_terminal.h"
#include "launcher/fence.h"
#include "launcher/job_spec.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

struct GuardSettings {
  Containment level = Containment::subreaper;  // never `automatic`
  std::string cgroup_folder;                   // level cgroup
  int cgroup_procs_fd = -1;
  rlimit nofile{};  // the limit that workers get back
  // Not null: a worker is to have this terminal. Stay in the user's session; give it back should nobody else do it.
  const AttachedTerminal* terminal = nullptr;
  std::vector<CpuSet> cpus;  // by local rank; empty: they are not bound
  // Not null: look at it at least so often. In memory that the agent writes.
  const Fence* fence = nullptr;
  std::chrono::milliseconds fence_every{};
};

struct GuardHandle {
  pid_t pid = -1;
  UniqueFd socket;  // the agent's end, non-blocking; end-of-file when the guard is gone
};

// Fork the guard. For Containment::pidns it is the first process of a new PID (and mount) namespace; without the right
// to make one directly, of a new user namespace too. Error: the kernel refuses that.
Result<GuardHandle> start_guard(const GuardSettings& settings);

}  // namespace dtrain::launcher
