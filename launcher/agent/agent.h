#pragma once
// The agent: one node's event loop. It decides nothing itself: GroupCore decides, the guard starts and kills, the
// OutputRouter writes, the store serves the workers; the agent carries messages between them. Idle, it does not wake
// up. Tested by test/process/launcher/rounds_test.py.
#include "launcher/front/front.h"
#include "launcher/job/job_spec.h"

namespace dtrain::launcher {

// Run the job as the agent process that run_front() forked. Returns the exit code of dtrain.
int run_agent(const JobSpec& spec, FrontSide front);

}  // namespace dtrain::launcher
