#pragma once
// The exception that ended a worker, found in its last lines. Pure.
#include <string>
#include <vector>

#include "launcher/job/exit_status.h"

namespace dtrain::launcher {

// Type and text in one line: "RuntimeError: boom" of Python's traceback, "std::runtime_error: boom" of what a C++
// program says when it calls terminate. Empty if neither the lines nor the status tell of an exception.
std::string exception_in(const std::vector<std::string>& lines, const ExitStatus& status);

}  // namespace dtrain::launcher
