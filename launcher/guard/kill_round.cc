#include "launcher/guard/kill_round.h"

#include <unistd.h>

#include <csignal>

#include "launcher/process/cgroup.h"
#include "launcher/process/sweep.h"

namespace dtrain::launcher {

namespace {

// The workers need no search: should /proc fail the guard, they are dead all the same.
void kill_by_sweep(const GuardedWorkers& workers) {
  workers.kill();
  kill_descendants(::getpid());
}

// A worker that could not begin in the cgroup may have left something outside of it.
void kill_by_cgroup(const std::string& folder, const GuardedWorkers& workers) {
  kill_cgroup(folder);
  kill_by_sweep(workers);
}

// The guard is the init of the namespace: this reaches everything in it but the guard.
void kill_by_namespace(const GuardedWorkers& /*workers*/) { ::kill(-1, SIGKILL); }

}  // namespace

KillRound kill_round_by(Containment level, const std::string& cgroup_folder) {
  switch (level) {
    case Containment::pidns:
      return kill_by_namespace;
    case Containment::cgroup:
      return [cgroup_folder](const GuardedWorkers& workers) { kill_by_cgroup(cgroup_folder, workers); };
    case Containment::automatic:
    case Containment::subreaper:
      break;
  }
  return kill_by_sweep;
}

}  // namespace dtrain::launcher
