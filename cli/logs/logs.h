#pragma once
// `dtrain logs`: prints what workers have written to files, behind their ranks.
#include <string>
#include <vector>

namespace dtrain::cli {

// Exit code: 0 something was printed, 1 nothing was found, 2 usage, 125 the output cannot be written.
int show_logs(const std::vector<std::string>& words);

}  // namespace dtrain::cli
