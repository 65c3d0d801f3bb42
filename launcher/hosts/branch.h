#pragma once
// An agent's process that starts other agents, too, and carries their input and output to and from whoever has started
// it (launcher/engine_wire/branch_wire.h). It decides nothing.
#include <string>

#include "launcher/engine_wire/branch_wire.h"
#include "rendezvous/base/result.h"

namespace dtrain::launcher {

// Returns once all of its agents have ended, or its input has. Then all that it has started hears the end of its input,
// or dies with it, as when a submitter dies. `input`: the frames. `version`: of this dtrain. Error: what comes in is
// nothing for a branch. Forks: call with one thread.
Result<int> run_branch(const BranchPlan& plan, int input, const std::string& version);

}  // namespace dtrain::launcher
