// Asks the terminal for its width.
#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "cli/layout.h"

namespace dtrain::cli {

std::size_t output_width() {
  const char* columns = std::getenv("COLUMNS");
  winsize size = {};
  bool terminal = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return help_width(columns != nullptr ? columns : "", terminal ? size.ws_col : 0);
}

}  // namespace dtrain::cli
