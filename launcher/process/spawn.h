#pragma once
// Start one worker: clone with CLONE_VFORK and CLONE_PIDFD, right into its cgroup if there is one, else with CLONE_VM.
// A failure of any step before exec is known, with its errno, when spawn() returns.
#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/base/cpu_set.h"
#include "launcher/job/exit_status.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

// argv or envp of the words, which stay where they are as long as it is used.
inline std::vector<char*> c_strings(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Where a worker lives: in a session of its own, or in the user's, for a worker that has the terminal. `foreground`: it
// begins as the group that the terminal listens to; `background`: another job has the terminal at the moment.
enum class Session : int32_t { own, foreground, background };

struct SpawnRequest {
  char** argv = nullptr;  // argv[0] with a slash is a path; else it is looked up in envp's PATH
  char** envp = nullptr;
  int stdin_fd = -1;
  int stdout_fd = -1;
  int stderr_fd = -1;
  int state_fd = -1;          // becomes kStateFd (worker_env.h); -1: none
  int state_copy_fd = -1;     // becomes kStateCopyFd; -1: none
  int cgroup_folder_fd = -1;  // the cgroup to begin in, from open_to_clone_into(), -1 for none
  int cgroup_procs_fd = -1;   // without that: an open cgroup.procs to join, -1 for none
  rlimit nofile{};            // the limit the user had; dtrain raises its own
  Session session = Session::own;
  const CpuSet* cpus = nullptr;  // to be bound to; none: wherever the caller may run
  bool dies_with_caller = true;  // by SIGKILL
};

struct SpawnResult {
  pid_t pid = -1;  // -1: not started
  UniqueFd pidfd;
  SpawnStep step = SpawnStep::none;  // what failed
  int error = 0;                     // its errno
};

// The child gets: its own session (so no controlling terminal, as under torchrun) or, attached, a place in the
// caller's (with the terminal at stdin_fd), its own process group, default signal
// dispositions and an empty mask, SIGKILL when the caller dies (if dies_with_caller), descriptors 0-2, kStateFd
// if there is one, and no others.
// Call from the thread that lives as long as the process (the death signal follows the thread).
SpawnResult spawn(const SpawnRequest& request);

}  // namespace dtrain::launcher
