// cores_bench: nanoseconds that a cache line takes from one core to another, of the two that are furthest apart among
// the first eight that this process may use. 0 where there is one.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <thread>

#include "launcher/base/cpu_set.h"

namespace {

void stay_on(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  if (pthread_setaffinity_np(pthread_self(), sizeof(one), &one) != 0) throw std::runtime_error("a core is gone");
}

// The median of five rows, so that one in which another program ran on a core does not count.
double handover_ns(int one, int other) {
  using Clock = std::chrono::steady_clock;
  constexpr int kRows = 5, kTurns = 4000;
  alignas(64) std::atomic<int> turn{0};
  std::array<double, kRows> rows{};
  std::thread echo([&] {
    stay_on(other);
    for (int i = 1; i < 2 * kRows * kTurns; i += 2) {
      while (turn.load(std::memory_order_acquire) != i) {
      }
      turn.store(i + 1, std::memory_order_release);
    }
  });
  stay_on(one);
  int i = 0;
  for (double& row : rows) {
    const auto begin = Clock::now();
    for (const int end = i + 2 * kTurns; i < end; i += 2) {
      turn.store(i + 1, std::memory_order_release);
      while (turn.load(std::memory_order_acquire) != i + 2) {
      }
    }
    row = std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / (2 * kTurns);
  }
  echo.join();
  std::sort(rows.begin(), rows.end());
  return rows[kRows / 2];
}

}  // namespace

int main() {
  auto cores = dtrain::launcher::allowed_cpus();
  cores.resize(std::min<std::size_t>(cores.size(), 8));
  double most = 0;
  for (std::size_t i = 0; i < cores.size(); ++i) {
    for (std::size_t j = i + 1; j < cores.size(); ++j) most = std::max(most, handover_ns(cores[i], cores[j]));
  }
  std::printf("%.1f\n", most);
}
