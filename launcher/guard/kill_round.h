#pragma once
// How all processes of a round are killed: one way for each level of containment, chosen when the guard starts.
#include <functional>
#include <string>

#include "launcher/guard/guarded_workers.h"
#include "launcher/job/job_spec.h"

namespace dtrain::launcher {

// SIGKILL to everything below the caller, the guard. Processes that a fork hides from one call are found by the next.
using KillRound = std::function<void(const GuardedWorkers&)>;

// `cgroup_folder`: of the job, for level cgroup.
KillRound kill_round_by(Containment level, const std::string& cgroup_folder);

}  // namespace dtrain::launcher
