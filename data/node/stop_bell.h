#pragma once
// The bell that ends waits.
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>

#include "data/os/owned_fd.h"

namespace dtrain::data {

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
  OwnedFd event_;
};

}  // namespace dtrain::data
