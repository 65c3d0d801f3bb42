#pragma once
// A socket or the end of a pipe, or none; closed when it goes. A forked child does not hold it open
// (forked_children.h).
#include <utility>

namespace dtrain {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd);
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();

  int fd() const { return fd_; }  // -1: none

 private:
  int fd_ = -1;
};

}  // namespace dtrain
