#include "launcher/agent_setup.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "launcher/proc_info.h"

namespace dtrain::launcher {

namespace {

// Returns the limit of open files that the user had.
rlimit become_agent() {
  ::prctl(PR_SET_NAME, "dtrain-agent");
  // A group of its own: what the terminal or a shell sends to the job's group comes through the front, once.
  ::setpgid(0, 0);
  ::signal(SIGTTOU, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);  // should the front die while we are stopped
  rlimit user_limit{};
  ::getrlimit(RLIMIT_NOFILE, &user_limit);
  const rlimit raised{user_limit.rlim_max, user_limit.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &raised);
  return user_limit;
}

}  // namespace

Result<AgentParts> set_up_agent(const JobSpec& spec, FrontNotes& notes, const AttachedTerminal* terminal) {
  const rlimit user_limit = become_agent();
  auto logs = LogTree::create(spec);
  if (!logs) return logs.error();
  std::snprintf(notes.temporary_folder, sizeof notes.temporary_folder, "%s", logs->temporary_base().c_str());
  auto containment = choose_containment(spec.containment, file_name_safe(spec.run_id));
  if (!containment) {
    logs->remove_if_empty();
    return containment.error();
  }
  JobCgroup& cgroup = containment->cgroup;
  std::snprintf(notes.cgroup_folder, sizeof notes.cgroup_folder, "%s", cgroup.folder().c_str());
  GuardSettings settings{containment->level, cgroup.folder(), cgroup.procs_fd(), user_limit, terminal, spec.cpus};
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

}  // namespace dtrain::launcher
