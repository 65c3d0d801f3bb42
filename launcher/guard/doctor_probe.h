#pragma once
// Proof of the containment levels for `dtrain doctor`. Each level is set up, and a child runs in it that double-forks,
// opens a session of its own and ignores SIGTERM. The level passes only if that process is dead after the kill.
#include <string>
#include <vector>

#include "launcher/job/job_spec.h"

namespace dtrain::launcher {

struct ContainmentProof {
  Containment level;
  bool holds = false;
  std::string detail;  // how long the kill took, or why the level is not to be had
};

// Try cgroup, subreaper and pidns in turn; takes well under a second. Leaves nothing behind. Forks: call from a process
// with one thread.
std::vector<ContainmentProof> prove_containment();

}  // namespace dtrain::launcher
