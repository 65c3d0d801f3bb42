#include "launcher/terminal/unwaiting_line.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cstddef>

#include "rendezvous/base/printable.h"

namespace dtrain::launcher {

void say_unwaiting(const std::string& line) {
  constexpr std::size_t kLongest = 3000;  // a pipe that takes anything takes 4096 bytes (PIPE_BUF)
  static int left_out = 0;
  pollfd out{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&out, 1, 0) != 1 || (out.revents & POLLOUT) == 0) {
    ++left_out;
    return;
  }
  const std::string gap = left_out == 0 ? "" : fmt::format(" ({} lines before this one were left out)", left_out);
  const std::string text = fmt::format("dtrain: {}{}\n", printable(line, kLongest), gap);
  left_out = ::write(STDERR_FILENO, text.data(), text.size()) < 0 ? left_out + 1 : 0;
}

}  // namespace dtrain::launcher
