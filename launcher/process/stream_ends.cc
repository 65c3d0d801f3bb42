#include "launcher/process/stream_ends.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace dtrain::launcher {

std::optional<WindowSize> window_size(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0) return std::nullopt;
  return WindowSize{size.ws_row, size.ws_col};
}

Result<StreamPipe> open_stream_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return system_error("cannot make a pipe for a worker's output (see `ulimit -n`)", errno);
  }
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return StreamPipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Result<StreamPipe> open_stream_terminal(WindowSize window) {
  UniqueFd ours(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!ours || ::unlockpt(ours.get()) != 0) return open_stream_pipe();
  // By descriptor, not by name: /dev/pts may be another one here.
  UniqueFd theirs(::ioctl(ours.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  termios modes{};
  if (!theirs || ::tcgetattr(theirs.get(), &modes) != 0) return open_stream_pipe();
  ::cfmakeraw(&modes);
  const winsize size{window.rows, window.columns, 0, 0};
  if (::tcsetattr(theirs.get(), TCSANOW, &modes) != 0 || ::ioctl(theirs.get(), TIOCSWINSZ, &size) != 0)
    return open_stream_pipe();
  ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  return StreamPipe{std::move(ours), std::move(theirs)};
}

}  // namespace dtrain::launcher
