#include "rendezvous/store_server/busy_poll.h"

#include <sched.h>

namespace dtrain {

namespace {

using Steady = std::chrono::steady_clock;

bool found_by_looking(boost::asio::io_context& io, Steady::time_point until) {
  while (Steady::now() < until) {
    if (io.poll() > 0) return true;
    if (io.stopped()) return false;
    ::sched_yield();
  }
  return false;
}

}  // namespace

void run_with_busy_poll(boost::asio::io_context& io) {
  BusyPoll busy_poll;
  while (!io.stopped()) {
    while (io.poll() > 0) {
    }
    const auto idle_since = Steady::now();
    if (found_by_looking(io, idle_since + busy_poll.look())) continue;
    io.run_one();
    busy_poll.waited(Steady::now() - idle_since);
  }
}

}  // namespace dtrain
