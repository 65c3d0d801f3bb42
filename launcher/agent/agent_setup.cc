#include "launcher/agent/agent_setup.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>

#include "launcher/process/proc_info.h"
#include "launcher/process/sweep.h"

namespace dtrain::launcher {

namespace {

constexpr auto kGuardEnds = std::chrono::seconds(2);     // an idle guard ends at once; this bounds the wait
constexpr auto kLeftoversEnd = std::chrono::seconds(5);  // for processes that SIGKILL does not end (state D)

// Returns the limit of open files that the user had.
Result<rlimit> become_agent() {
  ::prctl(PR_SET_NAME, "dtrain-agent");
  // A group of its own: what the terminal or a shell sends to the job's group comes through the front, once.
  ::setpgid(0, 0);
  ::signal(SIGTTOU, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // a file that reaches `ulimit -f` counts as one on a full disk
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return system_error("cannot be a subreaper", errno);
  // Should the front die while we are stopped.
  if (::prctl(PR_SET_PDEATHSIG, SIGCONT) != 0) return system_error("cannot be told of the front's death", errno);
  rlimit user_limit{};
  ::getrlimit(RLIMIT_NOFILE, &user_limit);
  const rlimit raised{user_limit.rlim_max, user_limit.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &raised);
  return user_limit;
}

}  // namespace

Result<AgentParts> set_up_agent(const JobSpec& spec, JobNotes& notes, const AttachedTerminal* terminal) {
  const auto user_limit = become_agent();
  if (!user_limit) return user_limit.error();
  auto logs = LogTree::create(spec);
  if (!logs) return logs.error();
  note_path(notes.temporary_folder, logs->temporary_base());
  auto containment = choose_containment(spec.containment, file_name_safe(spec.run_id));
  if (!containment) {
    logs->remove_if_empty();
    return containment.error();
  }
  JobCgroup& cgroup = containment->cgroup;
  note_path(notes.cgroup_folder, cgroup.folder());
  GuardSettings settings{containment->level, cgroup.folder(), cgroup.procs_fd(), *user_limit, terminal, spec.cpus};
  settings.notes = &notes;
  settings.survivors = spec.survivors > 0;
  if (spec.nodes.across_hosts) {
    settings.fence = &notes.fence;
    settings.fence_every = std::chrono::ceil<std::chrono::milliseconds>(spec.nodes.pulse.ping_every());
  }
  auto guard = start_guard(settings);
  if (!guard) {
    cgroup.remove();
    logs->remove_if_empty();
    return guard.error();
  }
  notes.guard = guard->pid;
  return AgentParts{std::move(*logs), std::move(*containment), std::move(*guard)};
}

GroupSettings group_settings(const JobSpec& spec) {
  return {spec.nproc_per_node,   spec.max_restarts, spec.survivors,       spec.failure_grace,
          spec.shutdown_timeout, spec.kill_timeout, spec.failure_settles, spec.nodes.several()};
}

void end_guard(pid_t guard, const JobCgroup& cgroup, bool stuck) {
  if (guard > 0 && stuck) ::kill(guard, SIGKILL);
  if (guard > 0 && !wait_for_exit(guard, kGuardEnds)) return;  // it is still at work, and goes on without us
  if (stuck || no_children()) return;
  cgroup.kill();
  end_descendants(kLeftoversEnd);
}

}  // namespace dtrain::launcher
