#pragma once
// What the agent needs before its event loop: a process that is set up for it, the log folder, the containment and the
// guard, forked while the process is still small.
#include "launcher/containment.h"
#include "launcher/front.h"
#include "launcher/guard.h"
#include "launcher/job_spec.h"
#include "launcher/log_tree.h"
#include "rendezvous/base/result.h"

namespace dtrain::launcher {

struct AgentParts {
  LogTree logs;
  ChosenContainment containment;
  GuardHandle guard;
};

// Call in the agent's process, before it has threads. Tells the front by `notes` what to clean up. On an error nothing
// is left.
Result<AgentParts> set_up_agent(const JobSpec& spec, FrontNotes& notes, const AttachedTerminal* terminal);

}  // namespace dtrain::launcher
