#include "cli/base/print.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "cli/base/fail.h"
#include "cli/base/layout.h"
#include "launcher/terminal/terminal_line.h"
#include "launcher/terminal/wants_color.h"
#include "rendezvous/base/printable.h"

namespace dtrain::cli {

int print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return 0;
  return fail(system_error("standard output", errno));
}

int print_help(const std::string& text) {
  return print(launcher::wants_color(launcher::Color::automatic, STDOUT_FILENO) ? painted(text) : text);
}

int print_help(const Result<std::string>& text) { return text ? print_help(*text) : fail(text.error()); }

void say(const std::string& text) { std::fprintf(stderr, "%s\n", launcher::own_line(printable(text, 1000)).c_str()); }

int print(const Result<std::string>& text) { return text ? print(*text) : fail(text.error()); }

}  // namespace dtrain::cli
