#include "cli/base/print.h"

#include <cerrno>
#include <cstdio>

#include "cli/base/fail.h"
#include "rendezvous/base/printable.h"

namespace dtrain::cli {

int print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return 0;
  return fail(system_error("standard output", errno));
}

void say(const std::string& text) { std::fprintf(stderr, "dtrain: %s\n", printable(text, 1000).c_str()); }

int print(const Result<std::string>& text) { return text ? print(*text) : fail(text.error()); }

}  // namespace dtrain::cli
