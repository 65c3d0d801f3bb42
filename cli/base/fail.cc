#include "cli/base/fail.h"

#include <cstdio>

#include "launcher/job/exit_codes.h"
#include "launcher/terminal/terminal_line.h"
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
    case ErrorKind::unavailable:
      return launcher::kExitUnavailable;
    case ErrorKind::system:
      return launcher::kExitOwnFailure;
  }
  return launcher::kExitOwnFailure;
}

}  // namespace

int fail(const Error& error) {
  std::fprintf(stderr, "%s\n", launcher::own_error(printable(error.message, kLongestMessage)).c_str());
  return exit_code_of(error.kind);
}

}  // namespace dtrain::cli
