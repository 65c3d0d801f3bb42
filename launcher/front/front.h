#pragma once
// The front: the process that the user's shell knows. The front forks the agent, hands signals on to it, and is its
// parent, so the kernel tells when the agent dies or is stopped: no lease has to tick for that. The front is the last
// subreaper: if agent and guard die together, what the workers left falls to the front, which kills it.
#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include "launcher/guard/job_notes.h"
#include "launcher/job/job_spec.h"
#include "launcher/process/attached_terminal.h"
#include "rendezvous/base/unique_fd.h"
#include "rendezvous/net/connect.h"

namespace dtrain::launcher {

struct FrontSide {
  UniqueFd socket;  // for FrontMessages; end-of-file when the front is gone
  JobNotes* notes = nullptr;
  const AttachedTerminal* terminal = nullptr;  // only with --attach
};

struct FrontSignals {
  std::vector<int> stop;    // end the job
  std::vector<int> passed;  // go to the workers
  // An agent that was stopped by SIGSTOP, and that nobody has continued in this time, is killed.
  std::chrono::nanoseconds stopped_lease = std::chrono::seconds(3);
  // The job is stopped when this process dies, as by SIGTERM; -1: there is none. A pidfd.
  int ends_with = -1;
  // Where the program listens that has started this one from another host, if its daemon tells of the end by SIGCONT:
  // where nobody listens then, the job is stopped as by SIGTERM, and the daemon's SIGTERM that comes later is no second
  // request. Empty: there is none.
  std::vector<NetworkPlace> started_from{};
  std::vector<PlannedSignal> planned{};
  // From an engine: lines with a signal each (order_lines.h). At its end the job is stopped. -1: there is none.
  int orders = -1;
  // Whoever gives the orders gets the same signals as this process: those that come here directly do not count.
  bool only_orders = false;
  std::string lead{};  // of each line of the front's own: which of several jobs it is
};

// From then on these signals are read from a descriptor, with SIGCHLD and those of job control. A SIGTSTP that the
// user's shell ignores stays ignored. Returns all of them.
sigset_t block_signals(const std::vector<int>& stop, const std::vector<int>& passed);

// Fork the agent and be the front until the agent has ended and nothing is left. `agent_main` runs in the child and
// returns its exit code. Returns that code, or 125 when the agent died of a signal. After an interrupted job the front
// dies of SIGINT in place of returning, as shells want it. `terminal`: only with --attach.
int run_front(const FrontSignals& signals, const AttachedTerminal* terminal,
              int (*agent_main)(FrontSide side, void* context), void* context);

}  // namespace dtrain::launcher
