#pragma once
// Looks for locks of builds that were killed, where the workers' torch builds extensions (build_lock.h).
#include <vector>

#include "cli/machine/host.h"
#include "cli/program/build_lock.h"

namespace dtrain::cli {

// Those that were left and that workers would wait for, eight at most. Where no such file lies this is a look at some
// folders. Else it also looks at all processes and, for a lock that was left, starts Python. Removes nothing. Forks:
// call with one thread.
std::vector<BuildLock> left_build_locks(const Host& host);

}  // namespace dtrain::cli
