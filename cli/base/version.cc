// The three definitions come from cli/CMakeLists.txt.
#include "cli/base/version.h"

#include <fmt/format.h>

namespace dtrain::cli {

std::string own_version() { return "dtrain " DTRAIN_VERSION; }

std::string version_line() { return own_version() + "\n"; }

std::string version_text() {
#if defined(__clang__)
  std::string compiler = "clang " __clang_version__;
#else
  std::string compiler = "gcc " __VERSION__;
#endif
  return version_line() +
         fmt::format("compiler  {}\nbuild     {}\nrevision  {}\n", compiler, DTRAIN_BUILD_TYPE, DTRAIN_REVISION);
}

}  // namespace dtrain::cli
