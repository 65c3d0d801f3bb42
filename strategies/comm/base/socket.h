#pragma once
// A socket or the end of a pipe, or none; closed when it goes.
#include <unistd.h>

#include <utility>

namespace dtrain {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }

  int fd() const { return fd_; }  // -1: none

 private:
  int fd_ = -1;
};

}  // namespace dtrain
