#pragma once
// How the agent gets its guard.
#include <sys/types.h>

#include "launcher/guard/guard.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

struct GuardHandle {
  pid_t pid = -1;
  UniqueFd socket;  // the agent's end, non-blocking; end-of-file when the guard is gone
};

// Fork the guard. For Containment::pidns the guard is the first process of a new PID (and mount) namespace; without the
// right to make one directly, of a new user namespace too. Error: the kernel refuses that.
Result<GuardHandle> start_guard(const GuardSettings& settings);

}  // namespace dtrain::launcher
