#pragma once
// The failure report in torchrun's layout, for callers and scripts that know it: used when dtrain was called as
// torchrun. Pure.
#include <string>

#include "launcher/report/failure_report.h"

namespace dtrain::launcher {

// Ends with a newline. Has the same facts as report_text(): the root cause is the same worker, and where torchrun would
// only tell how to enable tracebacks, the last lines of stderr follow. Empty if no worker failed.
std::string torchrun_report_text(const FailureFacts& facts);

}  // namespace dtrain::launcher
