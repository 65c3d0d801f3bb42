#include "launcher/inherited.h"

#include <fcntl.h>

#include <csignal>

namespace dtrain::launcher {

std::vector<int> not_ignored(const std::vector<int>& signals) {
  std::vector<int> kept;
  for (const int s : signals) {
    struct sigaction now {};
    if (::sigaction(s, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) kept.push_back(s);
  }
  return kept;
}

void fill_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
  }
}

}  // namespace dtrain::launcher
