#pragma once
// What `dtrain run --dry-run` prints.
#include <map>
#include <string>

#include "cli/resolve/resolve.h"

namespace dtrain::cli {

// The plan as text: program, settings with their origins, what all workers share of their environment, and for each
// worker what is its own. `own`: dtrain's environment. Pure. What is only known at start (port, log folder) stands in
// <angle brackets>.
std::string describe(const Plan& plan, const std::map<std::string, std::string>& own);

}  // namespace dtrain::cli
