#pragma once
// A question to another program, answered on its standard output.
#include <chrono>
#include <string>
#include <vector>

#include "rendezvous/base/result.h"

namespace dtrain::cli {

enum class AskedErrors { hidden, shown };

// What `argv` (argv[0] a path) writes to stdout, at most 64 KiB of it; its stdin is /dev/null, and so is its stderr,
// unless that is to be shown: then it is that of the caller. An error if it cannot be started, does not end with 0, or
// not within `patience`: then its process group is killed. It is also killed when the caller dies. Forks: call with one
// thread.
Result<std::string> ask_program(const std::vector<std::string>& argv, std::chrono::milliseconds patience,
                                AskedErrors errors = AskedErrors::hidden);

}  // namespace dtrain::cli
