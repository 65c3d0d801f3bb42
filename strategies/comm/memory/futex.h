#pragma once
// Spinning and sleeping on words that processes share: hence no FUTEX_PRIVATE_FLAG.
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>
#include <optional>

namespace dtrain {

inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Look before sleeping: ask() up to `looks` times; true if it was true once. `yields` (where ranks outnumber cores):
// ask once, then leave the core to others.
template <class Ask>
bool look(int looks, bool yields, Ask ask) {
  if (yields) looks = 1;
  for (; looks > 0; --looks) {
    if (ask()) return true;
    cpu_relax();
  }
  if (yields) ::sched_yield();
  return false;
}

// A time that begins with the first question about it: to read the clock takes as long as a small message.
class Patience {
 public:
  explicit Patience(std::chrono::nanoseconds time) : time_(time) {}
  bool is_over() {
    const auto now = std::chrono::steady_clock::now();
    if (!until_) until_ = now + time_;
    return now >= *until_;
  }

 private:
  std::chrono::nanoseconds time_;
  std::optional<std::chrono::steady_clock::time_point> until_;
};

// Look again and again, for as long as the patience lasts.
template <class Ask>
bool look_for(Patience& patience, int looks, bool yields, Ask ask) {
  do {
    if (look(looks, yields, ask)) return true;
  } while (!patience.is_over());
  return false;
}

inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen, std::chrono::nanoseconds limit) {
  timespec time{};
  time.tv_sec = limit.count() / 1'000'000'000;
  time.tv_nsec = limit.count() % 1'000'000'000;
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

inline void futex_wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace dtrain
