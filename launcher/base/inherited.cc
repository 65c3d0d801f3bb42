#include "launcher/base/inherited.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>

extern char** environ;

namespace dtrain::launcher {

std::vector<int> not_ignored(const std::vector<int>& signals) {
  std::vector<int> kept;
  for (const int s : signals) {
    struct sigaction now {};
    if (::sigaction(s, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) kept.push_back(s);
  }
  return kept;
}

UniqueFd empty_input() {
  UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  int ends[2];
  if (fd || ::pipe2(ends, O_CLOEXEC) != 0) return fd;
  const UniqueFd nobody_writes(ends[1]);
  return UniqueFd(ends[0]);
}

void fill_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    if (::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) == fd) continue;
    UniqueFd empty = empty_input();  // writing to it fails, as to a descriptor that is closed
    if (empty.get() == fd)
      ::fcntl(empty.release(), F_SETFD, 0);
    else if (empty)
      ::dup2(empty.get(), fd);
  }
}

std::vector<std::string> own_environment() {
  std::vector<std::string> all;
  for (char** e = environ; *e != nullptr; ++e) all.emplace_back(*e);
  return all;
}

}  // namespace dtrain::launcher
