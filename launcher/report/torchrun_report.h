#pragma once
// The failure report in torchrun's layout, for callers and scripts that know it: used when dtrain was called as
// torchrun. Pure.
#include <string>

#include "launcher/failure_report.h"

namespace dtrain::launcher {

// Ends with a newline. The content is as true as report_text()'s: which failure was first, and where torchrun would
// only tell how to enable tracebacks the last lines of stderr follow. Needs at least one failed worker; without one the
// answer is empty.
std::string torchrun_report_text(const FailureFacts& facts);

}  // namespace dtrain::launcher
