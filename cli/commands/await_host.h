#pragma once
// A job whose nodes meet at a host that is not known by its name yet: a pod or a machine that is still starting.
#include <chrono>

#include "cli/resolve/resolve.h"

namespace dtrain::cli {

// Wait until plan.awaited_host has an address, and say so meanwhile; false: not within the join_timeout after `since`,
// which is said too. A signal ends the process: nothing has begun.
bool await_host(const Plan& plan, std::chrono::steady_clock::time_point since);

}  // namespace dtrain::cli
