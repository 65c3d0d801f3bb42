#pragma once
// The replica groups of a node: a process for each, which is the front of a job of its own, and this process, which the
// user's shell knows. It starts them, passes signals on, and ends when the last group has ended.
//
//   shell ── dtrain ──┬── front of group 0 ── agent ── guard ── workers
//                     └── front of group 1 ── agent ── guard ── workers
//
// Tested by test/process/launcher/replicas_test.py.
#include "launcher/job/job_spec.h"

namespace dtrain::launcher {

// Returns dtrain's exit code. After Ctrl-C the process dies of SIGINT in place of returning. Call from the main thread
// of a single-threaded process: it forks.
int run_replicas(const JobSpec& node);

}  // namespace dtrain::launcher
