#pragma once
// What the agent needs before its event loop: a process that is set up for it, the log folder, the containment and the
// guard, forked while the process is still small. Tested by test/process/launcher/trouble_test.py.
#include "launcher/front/front.h"
#include "launcher/guard/start_guard.h"
#include "launcher/job/group_core.h"
#include "launcher/job/job_spec.h"
#include "launcher/logs/log_tree.h"
#include "launcher/process/containment.h"
#include "rendezvous/base/result.h"

namespace dtrain::launcher {

struct AgentParts {
  LogTree logs;
  ChosenContainment containment;
  GuardHandle guard;
};

GroupSettings group_settings(const JobSpec& spec);

// Call in the agent's process, before it has threads. Tells the front by `notes` what to clean up. On an error nothing
// is left.
Result<AgentParts> set_up_agent(const JobSpec& spec, JobNotes& notes, const AttachedTerminal* terminal);

// After the guard's socket is closed: wait until it has emptied the containment and ended. A guard that was killed
// leaves that to us. `guard`: 0 if its end is known. `stuck`: processes are left that nobody can kill; do not wait.
void end_guard(pid_t guard, const JobCgroup& cgroup, bool stuck);

}  // namespace dtrain::launcher
