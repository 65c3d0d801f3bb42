#pragma once
// Until when this node may have workers: from then on the others may go on without it. The agent stops them in time and
// puts the time off as long as it hears of the job's host. It stands in memory that agent and guard share, so that the
// guard keeps it where the agent does not run: on a dead file system, without memory, in a debugger. By a clock that
// goes on while the machine is suspended.
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
  // None: nobody goes on without this node. `now` and `at` are of one clock.
  void set(std::optional<MonoTime> at, MonoTime now) {
    at_.store(at ? std::max<std::int64_t>(1, (here() + (*at - now)).count()) : 0);
  }
  // Negative or zero: it has passed.
  std::optional<Duration> left() const {
    const std::int64_t at = at_.load();
    return at == 0 ? std::nullopt : std::optional(Duration(at) - here());
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
