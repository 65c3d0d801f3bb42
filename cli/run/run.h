#pragma once
// `dtrain run`, `dtrain launch` and torchrun.
#include <string>
#include <vector>

#include "cli/parse/parse.h"

namespace dtrain::cli {

// `words`: what was typed after the command. Prints what the flags ask for, or carries out the job. Exit code:
// docs/exit-codes.md. Forks: call with one thread.
int run_command(const std::vector<std::string>& words, CalledAs called);

}  // namespace dtrain::cli
