#pragma once
// The job of a plan, from its first words to its exit code.
#include "cli/resolve/resolve.h"

namespace dtrain::cli {

// Waits for the host where the nodes meet, if its name is not known yet. Returns the job's exit code, or that of an
// error, which it says.
int start_job(const RawOptions& raw, const Host& host, Plan plan);

}  // namespace dtrain::cli
