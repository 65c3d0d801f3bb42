#pragma once
// A job on several hosts, as the process that has started its agents sees it: the agents meet
// (launcher/engines/placement.h), their output is this process's, signals go to all of them, and they end with it.
//
// All functions fork: call with one thread. Those that run a job return the job's exit code, or why there is no job.
// After an interrupted job the process dies of SIGINT in place of returning, as shells want it.
#include <optional>
#include <string>
#include <vector>

#include "launcher/engine_wire/shim_wire.h"
#include "launcher/engines/placement.h"
#include "rendezvous/base/result.h"
#include "rendezvous/credentials/link_credential.h"

namespace dtrain::launcher {

struct SubmitSignals {
  std::vector<int> stop, passed;  // as in FrontSignals
};

struct HostsSpec {
  PlacementRequest request;
  std::vector<std::vector<std::string>> commands;  // by host; a word without a slash is looked up in PATH
  SubmitSignals signals;
};

// The agents are started by a command on each host (ssh). Tested by test/process/ssh/ssh_test.py.
Result<int> run_on_hosts(HostsSpec spec);

struct EngineSpec {
  PlacementRequest request;       // its hosts are those that the engine has; those of rounds_at are this host's
  std::vector<std::string> shim;  // the command that knows the engine
  std::string code{};             // what it reads first, as a text of JSON
  ShimRequest nodes;              // but its order's port, job and secret
  SubmitSignals signals;
  std::optional<LinkCredential> credential{};  // of a job that grows
};

// The agents are started by an engine (Ray), and dial back. Tested by test/process/clusters/ray_test.py.
Result<int> run_on_engine(EngineSpec spec);

// What the engine would give such a job now: it starts nothing, and is left as it was.
struct EngineLook {
  ShimPlaced placed{};
  int signal = 0;  // that has come before the answer; 0: none has
};
Result<EngineLook> look_at_engine(EngineSpec spec);

}  // namespace dtrain::launcher
