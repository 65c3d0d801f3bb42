#pragma once
// How a thread that serves requests waits for the next: where one follows the other closely it looks for it a little
// while before it sleeps, since to be woken takes longer than most requests do (28 us on an idle virtual CPU). The rule
// is that of the kernel's haltpoll governor: look only while what came last came soon. ADR 0515.
#include <boost/asio/io_context.hpp>
#include <chrono>

namespace dtrain {

// Pure. A thread that hears little never looks, and at most once in vain after the last of many.
class Attention {
 public:
  // A little more than a peer needs that has to be woken itself.
  static constexpr std::chrono::microseconds kLook{60};

  // How long to look before sleeping; 0: not at all.
  std::chrono::microseconds look() const { return soon_ ? kLook : std::chrono::microseconds{0}; }
  // There has been nothing to do for so long, then there was; if the thread slept, its waking is a part of it.
  void waited(std::chrono::nanoseconds time) { soon_ = time <= 2 * kLook; }

 private:
  bool soon_ = false;
};

// As io.run(), with attention. While it looks, others that can run on its CPU have their turn.
void run_attentively(boost::asio::io_context& io);

}  // namespace dtrain
