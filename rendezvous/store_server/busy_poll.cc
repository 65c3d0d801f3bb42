#include "rendezvous/attention.h"

#include <sched.h>

namespace dtrain {

namespace {

using Clock = std::chrono::steady_clock;

bool found_by_looking(boost::asio::io_context& io, Clock::time_point until) {
  while (Clock::now() < until) {
    if (io.poll() > 0) return true;
    if (io.stopped()) return false;
    ::sched_yield();
  }
  return false;
}

}  // namespace

void run_attentively(boost::asio::io_context& io) {
  Attention attention;
  while (!io.stopped()) {
    while (io.poll() > 0) {
    }
    const auto idle_since = Clock::now();
    if (found_by_looking(io, idle_since + attention.look())) continue;
    io.run_one();
    attention.waited(Clock::now() - idle_since);
  }
}

}  // namespace dtrain
