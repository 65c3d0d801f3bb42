#pragma once
// How a thread that serves requests waits for the next one. Where requests follow each other closely, the thread polls
// for a moment before it sleeps: to be woken takes longer than most requests do (28 us on an idle virtual CPU). The
// rule is that of the kernel's haltpoll governor: poll only while the last request came soon. ADR 0515.
#include <boost/asio/io_context.hpp>
#include <chrono>

namespace dtrain {

// Pure. A thread that hears little never polls, and after the last of many requests it polls at most once in vain.
class BusyPoll {
 public:
  // A little more than a peer needs that has to be woken itself.
  static constexpr std::chrono::microseconds kLook{60};

  // How long to poll before the thread sleeps; 0: not at all.
  std::chrono::microseconds look() const { return soon_ ? kLook : std::chrono::microseconds{0}; }
  // There was nothing to do for `time`, then there was something. If the thread slept, its waking is a part of `time`.
  void waited(std::chrono::nanoseconds time) { soon_ = time <= 2 * kLook; }

 private:
  bool soon_ = false;
};

// As io.run(), with busy polling. While the thread polls, others that can run on its CPU have their turn.
void run_with_busy_poll(boost::asio::io_context& io);

}  // namespace dtrain
