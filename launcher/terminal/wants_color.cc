#include "launcher/terminal/wants_color.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace dtrain::launcher {

bool wants_color(Color color, int fd) {
  if (color != Color::automatic) return color == Color::always;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return ::isatty(fd) == 1 && (no_color == nullptr || *no_color == 0) && term != nullptr &&
         std::string_view(term) != "dumb";
}

std::string colored(std::string_view color, std::string_view text) {
  return fmt::format("\x1b[{}m{}\x1b[0m", color, text);
}

}  // namespace dtrain::launcher
