#pragma once
// `dtrain estimate`: the memory that a rank needs under each strategy, before anything runs.
#include <string>
#include <vector>

namespace dtrain::cli {

// Returns the exit code: 0, 1 if --memory is given and no strategy fits, 2 if the words or the path are wrong.
int estimate_command(const std::vector<std::string>& words);

}  // namespace dtrain::cli
