#pragma once
// The job's own cgroup v2: every worker and whatever it starts is in it, `cgroup.kill` ends them all at once, forks in
// flight included (Linux 5.14).
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

// The path in /proc/self/cgroup: of v2 ("0::/path") for controller "", of v1 for "memory" and the like; pure.
std::optional<std::string> parse_own_cgroup(const std::string& self_cgroup, std::string_view controller);

// Where this process is in the cgroup v2 tree, as an absolute folder below the mount; pure. `mountinfo` and
// `self_cgroup` are the texts of /proc/self/mountinfo and /proc/self/cgroup. Empty: cgroup v2 is not mounted here.
std::optional<std::string> own_cgroup_folder(const std::string& mountinfo, const std::string& self_cgroup);

class JobCgroup {
 public:
  JobCgroup() = default;

  // Make <own cgroup>/dtrain-<name>-<PID namespace>-<own pid>, after what dead jobs have left there is removed. Error:
  // no cgroup v2, no right to make it, or no cgroup.kill there.
  static Result<JobCgroup> create(const std::string& name);

  bool exists() const { return !folder_.empty(); }
  const std::string& folder() const { return folder_; }
  // Open cgroup.procs for children to join where clone_into_cgroup() cannot be had; -1 when there is no cgroup.
  int procs_fd() const { return procs_.get(); }
  // SIGKILL to all processes in it. False if the kernel refused.
  bool kill() const;
  // Remove the folder; only an empty cgroup can go. True when it is gone.
  bool remove();

 private:
  std::string folder_;
  UniqueFd procs_;
  UniqueFd held_;  // the folder, see folders.h
};

// Like fork() with extra clone flags, CLONE_VM excepted, but the child begins in the cgroup of this open folder. A
// child that moves itself by cgroup.procs waits about 10 ms, until all CPUs have passed through the kernel; this child
// does not. -1 with errno on failure. `pidfd` is set for CLONE_PIDFD.
pid_t clone_into_cgroup(int folder_fd, uint64_t flags, int* pidfd);
// The open folder, if a child was seen to begin and to live there. Old kernels and some sandboxes have no clone3. Linux
// (6.14 and later) kills every child that begins in a cgroup whose count of `cgroup.kill`s differs from that of its
// parent's cgroup: after a kill, close the folder and go by cgroup.procs.
UniqueFd open_to_clone_into(const std::string& folder);

// As kill() and remove(), for a process that did not make the cgroup.
bool kill_cgroup(const std::string& folder);
bool remove_cgroup(const std::string& folder);

}  // namespace dtrain::launcher
