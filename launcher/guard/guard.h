#pragma once
// The guard: the parent of the workers. A small single-threaded process, which the agent forks before it has threads or
// sockets. The guard is a subreaper (or the init of a PID namespace), so everything that workers start stays below it,
// and "no children" means exactly "nothing left". The guard does what the agent says (guard_protocol.h). When the agent
// is gone, the guard kills everything, waits until nothing is left, removes the job's cgroup, empty folders and status
// socket (job_notes.h) and ends.
#include <sys/resource.h>

#include <string>
#include <vector>

#include "launcher/guard/job_notes.h"
#include "launcher/job/job_spec.h"
#include "launcher/process/attached_terminal.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

struct GuardSettings {
  Containment level = Containment::subreaper;  // never `automatic`
  std::string cgroup_folder;                   // level cgroup
  int cgroup_procs_fd = -1;
  rlimit nofile{};  // the limit that workers get back
  // Not null: a worker is to have this terminal. The guard stays in the user's session, and gives the terminal back
  // should nobody else do so.
  const AttachedTerminal* terminal = nullptr;
  std::vector<CpuSet> cpus;         // by local rank; empty: workers are not bound
  const JobNotes* notes = nullptr;  // null: the job has nothing in the file system but the cgroup
  // Not null: the fence, in memory that the agent writes, and how often the guard looks at it at least.
  const Fence* fence = nullptr;
  std::chrono::milliseconds fence_every{};
  bool survivors = false;  // workers go on when one fails: what that one has started goes with it
};

// Be the guard until the agent is gone and nothing is left. For the process that start_guard() forks.
[[noreturn]] void guard_main(const GuardSettings& settings, UniqueFd agent);

}  // namespace dtrain::launcher
