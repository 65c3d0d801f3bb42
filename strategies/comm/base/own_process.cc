#include "strategies/comm/own_process.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

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

}  // namespace dtrain
