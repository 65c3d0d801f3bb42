#include "cli/children/read_until.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace dtrain::cli {

PipeText read_until(int fd, std::chrono::steady_clock::time_point deadline, std::size_t longest) {
  PipeText read;
  char buffer[4096];
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd ready = {fd, POLLIN, 0};
    const int events = left > 0 ? ::poll(&ready, 1, static_cast<int>(left)) : 0;
    if (events < 0 && errno == EINTR) continue;
    if (events <= 0) return read;
    const ssize_t size = ::read(fd, buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    read.complete = size == 0;
    if (size <= 0) return read;
    read.text.append(buffer, std::min(static_cast<std::size_t>(size), longest - read.text.size()));
  }
}

}  // namespace dtrain::cli
