#pragma once
// A job on several hosts, as the process that starts its agents by a command on each host (ssh) sees it: the agents
// meet (launcher/engines/placement.h), their output is this process's, signals go to all of them, and they end with it.
#include <string>
#include <vector>

#include "launcher/engines/placement.h"
#include "rendezvous/base/result.h"

namespace dtrain::launcher {

struct SubmitSpec {
  PlacementRequest request;
  std::vector<std::vector<std::string>> commands;  // by host; a word without a slash is looked up in PATH
  std::vector<int> stop_signals, passed_signals;   // as in FrontSignals
};

// Forks: call with one thread. Returns the job's exit code, or why there is no job. After an interrupted job the
// process dies of SIGINT in place of returning, as shells want it. Tested by test/process/ssh/ssh_test.py.
Result<int> run_on_hosts(SubmitSpec spec);

}  // namespace dtrain::launcher
