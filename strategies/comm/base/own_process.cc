#include "strategies/comm/base/own_process.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>

namespace dtrain {
namespace {

std::atomic<int> the_process{0};

void look() { the_process = ::getpid(); }

}  // namespace

int own_process() {
  if (const int known = the_process.load(std::memory_order_relaxed); known != 0) return known;
  static const bool watching = ::pthread_atfork(nullptr, nullptr, look) == 0;
  if (!watching) return ::getpid();
  look();
  return the_process;
}

int own_proc_pid() {
  std::array<char, 16> target{};  // a link to the number
  const auto length = ::readlink("/proc/self", target.data(), target.size() - 1);
  return length > 0 ? std::atoi(target.data()) : 0;
}

}  // namespace dtrain
