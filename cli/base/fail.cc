#include "cli/fail.h"

#include <cstdio>

#include "launcher/exit_codes.h"
#include "rendezvous/base/printable.h"

namespace dtrain::cli {
namespace {

constexpr std::size_t kLongest = 8192;  // two paths and what is wrong with them

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
  std::fprintf(stderr, "dtrain: %s\n", printable(error.message, kLongest).c_str());
  return exit_code_of(error.kind);
}

}  // namespace dtrain::cli
