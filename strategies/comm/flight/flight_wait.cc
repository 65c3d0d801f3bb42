// See flight_wait.h.
#include "strategies/comm/flight/flight_wait.h"

#include <signal.h>

#include <cerrno>

#include "strategies/comm/memory/futex.h"

namespace dtrain {
namespace {

constexpr std::chrono::minutes kLongest{1};
// Where the kernel cannot wait for several words (before 5.16), or a sandbox forbids it.
constexpr std::chrono::milliseconds kLookForDeath{100};

std::atomic<std::uint32_t> the_bell{0};
std::atomic<bool> asked{false};

// futex_waitv(2), which the C library does not have.
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
struct WaitedWord {
  std::uint64_t value;
  std::uint64_t address;
  std::uint32_t flags;
  std::uint32_t unused;
};
constexpr std::uint32_t kWord32 = 2;
constexpr std::size_t kMostWords = 128;

WaitedWord waited(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
  return {value, reinterpret_cast<std::uintptr_t>(&word), kWord32, 0};
}

// Async-signal-safe. In a forked child it changes that process's words, where nobody sleeps.
void on_signal(int) {
  const int before = errno;
  asked.store(true);
  ring_flight_bell();
  errno = before;
}

}  // namespace

std::atomic<std::uint32_t>& flight_bell() { return the_bell; }

void ring_flight_bell() noexcept {
  the_bell.fetch_add(1);
  futex_wake_all(the_bell);
}

void sleep_on_flight_words(std::uint32_t seen, const std::vector<const std::atomic<std::uint32_t>*>& words) {
  if (words.size() < kMostWords) {
    std::vector<WaitedWord> all{waited(the_bell, seen)};
    for (const auto* word : words) all.push_back(waited(*word, 0));
    timespec until{};
    ::clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += std::chrono::seconds(kLongest).count();
    if (::syscall(SYS_futex_waitv, all.data(), all.size(), 0, &until, CLOCK_MONOTONIC) >= 0) return;
    if (errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT) return;
  }
  futex_wait(the_bell, seen, kLookForDeath);
}

void catch_flight_signal(int signal) {
  struct sigaction before {};
  if (::sigaction(signal, nullptr, &before) != 0 || (before.sa_flags & SA_SIGINFO) != 0 || before.sa_handler != SIG_DFL)
    return;
  struct sigaction ours {};
  ours.sa_handler = on_signal;
  ours.sa_flags = SA_RESTART;
  ::sigaction(signal, &ours, nullptr);
}

bool flight_signal_came() noexcept { return asked.exchange(false); }

}  // namespace dtrain
