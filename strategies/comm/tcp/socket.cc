// See socket.h.
#include "strategies/comm/tcp/socket.h"

#include <unistd.h>

#include "strategies/comm/base/forked_children.h"

namespace dtrain {

Socket::Socket(int fd) : fd_(fd) {
  if (fd_ >= 0) hide_from_children(fd_);
}

Socket::~Socket() {
  if (fd_ < 0) return;
  no_longer_hide(fd_);
  ::close(fd_);
}

}  // namespace dtrain
