#pragma once
// A job whose nodes meet at a host that is not known by its name yet: a pod or a machine that is still starting.
#include <chrono>
#include <optional>

#include "cli/resolve/resolve.h"

namespace dtrain::cli {

// Wait until plan.awaited_host has an address, and say so meanwhile. Else the exit code: not within the join_timeout
// after `since`, which is said too; or an engine has ended the job (plan.spec.orders). A signal ends the process:
// nothing has begun.
std::optional<int> await_host(const Plan& plan, std::chrono::steady_clock::time_point since);

}  // namespace dtrain::cli
