#pragma once
// A descriptor that is closed, and the bell that ends waits.
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>

namespace dtrain::data {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// What tells threads to end: those that work look at the flag, those that wait poll the descriptor too. Without a
// descriptor they look at the flag ten times a second.
class StopBell {
 public:
  StopBell() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  const std::atomic<bool>& flag() const { return flag_; }
  operator bool() const { return flag_; }
  int event() const { return event_.get(); }
  // Waits, but no longer than this. False: it has been rung.
  bool pause(std::chrono::milliseconds limit) const {
    pollfd wait{event(), POLLIN, 0};
    poll(&wait, 1, static_cast<int>(limit.count()));
    return !flag_;
  }
  void ring() {
    flag_ = true;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = write(event_.get(), &one, sizeof one);
  }

 private:
  std::atomic<bool> flag_ = false;
  Descriptor event_;
};

}  // namespace dtrain::data
