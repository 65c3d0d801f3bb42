#pragma once
// The fence: the time from which on this node may have no workers, since the others may go on without it. The agent
// puts the fence off as long as it hears of the job's host, and stops the workers in time. The fence is in memory that
// agent and guard share: the guard keeps it where the agent does not run (on a dead file system, without memory, in a
// debugger). Its clock goes on while the machine is suspended.
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "rendezvous/base/clock.h"

namespace dtrain::launcher {

class Fence {
 public:
  // Without a time nobody goes on without this node. `now` and `at` are of one clock.
  void set(std::optional<MonoTime> at, MonoTime now) {
    at_.store(at ? std::max<std::int64_t>(1, (here() + (*at - now)).count()) : 0);
  }
  // Negative or zero: it has passed.
  std::optional<Duration> left() const {
    const std::int64_t at = at_.load();
    return at == 0 ? std::nullopt : std::optional(Duration(at) - here());
  }
  bool passed() const {
    const auto rest = left();
    return rest && *rest <= Duration(0);
  }

 private:
  static Duration here() {
    timespec time{};
    ::clock_gettime(CLOCK_BOOTTIME, &time);
    return std::chrono::seconds(time.tv_sec) + Duration(time.tv_nsec);
  }

  static_assert(std::atomic<std::int64_t>::is_always_lock_free, "two processes share it");
  std::atomic<std::int64_t> at_{0};
};

}  // namespace dtrain::launcher
