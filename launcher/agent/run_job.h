#pragma once
// The way into the launcher: a JobSpec goes in, an exit code comes out. Tested by test/process/launcher/rounds_test.py.
#include "launcher/job/job_spec.h"

namespace dtrain::launcher {

// Run the job to its end; returns dtrain's exit code (docs/exit-codes.md).
// Call from the main thread of a single-threaded process: it forks (docs/architecture.md, "three small processes").
int run_job(const JobSpec& spec);

}  // namespace dtrain::launcher
