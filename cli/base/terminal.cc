// Asks the terminal for its width.
#include "cli/base/terminal.h"

#include <sys/ioctl.h>

#include <cstdlib>

#include "cli/base/layout.h"

namespace dtrain::cli {

std::size_t output_width(int fd) {
  const char* columns = std::getenv("COLUMNS");
  winsize size = {};
  bool terminal = ioctl(fd, TIOCGWINSZ, &size) == 0;
  return help_width(columns != nullptr ? columns : "", terminal ? size.ws_col : 0);
}

}  // namespace dtrain::cli
