#pragma once
// What `dtrain run --dry-run` prints.
#include <string>

#include "cli/resolve.h"

namespace dtrain::cli {

// The plan as text: program, settings with their origins, what all workers share of their environment, and for each
// worker what is its own. Pure. What is only known at start (port, log folder) stands in <angle brackets>.
std::string describe(const Plan& plan);

}  // namespace dtrain::cli
