#pragma once
// What `dtrain version` and `--version` say.
#include <string>

namespace dtrain::cli {

std::string own_version();   // "dtrain 0.1.0"
std::string version_line();  // that and a newline
std::string version_text();  // that, and compiler, build type and git revision as known when the build was configured

}  // namespace dtrain::cli
