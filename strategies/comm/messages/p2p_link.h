#pragma once
// The way to another rank and back, for messages: frames in order. Used by one thread at a time.
#include <poll.h>

#include "strategies/comm/messages/p2p_core.h"

namespace dtrain {

class P2pLink {
 public:
  P2pLink() = default;
  P2pLink(const P2pLink&) = delete;
  P2pLink& operator=(const P2pLink&) = delete;
  virtual ~P2pLink() = default;

  // Give the core some of what has come, and send some of what it has to say. True: there was some.
  virtual bool take(P2pCore& core) = 0;
  virtual bool send(P2pCore& core) = 0;
  // P2pCore::whole(), sent. False: nothing was done.
  virtual bool send_whole(P2pCore&, P2pCore::Id, const P2pCore::Label&, std::span<const std::byte>) { return false; }
  // Whether a message of that size may come with one take(), so that P2pCore::expect() is of use.
  virtual bool comes_at_once(std::size_t) const { return false; }
  // Whether take() would give some; of a link that comes_at_once(). Any thread.
  virtual bool has_some() const { return false; }

  // What is known of the rank. One that left or died will say no more, beyond what take() has yet to give.
  enum class Fate { here, left, died };
  virtual Fate fate() = 0;
  // Why it may be late, or nothing.
  virtual std::string why_late() const { return ""; }

  // What to sleep on besides the bell, if anything; and what poll() then said of it.
  virtual pollfd interest() const { return {-1, 0, 0}; }
  virtual void notice(short) {}
  // Whether all that send() took from the core has gone: it may be here still, for interest() to wait for room.
  virtual bool is_clear() const { return true; }
  // From now on nothing is sent, and no caller's memory is touched.
  virtual void cease() {}
  // The end, after that: whether all that was sent has reached the other host.
  virtual bool has_arrived() { return true; }

 protected:
  // How much of one link comes before the next one's turn.
  static constexpr int kBurst = 64;
};

}  // namespace dtrain
