#include "cli/base/fail.h"

#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "launcher/job/exit_codes.h"
#include "launcher/terminal/terminal_line.h"
#include "launcher/terminal/wants_color.h"
#include "rendezvous/base/printable.h"

namespace dtrain::cli {
namespace {

constexpr std::size_t kLongestMessage = 8192;  // two paths and what is wrong with them

int exit_code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return launcher::kExitUsage;
    case ErrorKind::not_found:
      return launcher::kExitNotFound;
    case ErrorKind::not_executable:
      return launcher::kExitNotExecutable;
    case ErrorKind::system:
      return launcher::kExitOwnFailure;
  }
  return launcher::kExitOwnFailure;
}

}  // namespace

int fail(const Error& error) {
  constexpr std::string_view kName = "dtrain:";
  std::string line = launcher::own_line(printable(error.message, kLongestMessage));
  if (launcher::wants_color(launcher::Color::automatic, STDERR_FILENO))
    line = "\x1b[1;31m" + std::string(kName) + "\x1b[0m" + line.substr(kName.size());
  std::fprintf(stderr, "%s\n", line.c_str());
  return exit_code_of(error.kind);
}

}  // namespace dtrain::cli
