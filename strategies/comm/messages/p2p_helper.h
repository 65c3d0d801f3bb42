#pragma once
// Who moves a rank's messages: its thread, or a caller that waits and helps; and how long the thread sleeps. Pure: no
// clock, bell or thread. The times that it is given must not go back.
//
// While a caller helps, and for a while after a wait that ended well, the thread is not needed: to wake it for each
// message would cost more than all the rest. So it naps: messages of other ranks do not wake it, its own rank does.
#include <algorithm>
#include <chrono>

namespace dtrain {

class P2pHelper {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  // The thread looks around (for failures and deadlines) so often while an operation is pending.
  explicit P2pHelper(Duration look_around) : look_around_(look_around) {}

  // From begin() to end() a caller moves messages, one at a time.
  bool helps() const { return helps_; }
  void begin() { helps_ = true; }
  void end() { helps_ = false; }
  // The wait of a caller is over. `well`: nothing is pending, and no callback is to be called. True: the thread naps,
  // and may go on.
  bool may_nap_on(bool well);

  // The thread goes to sleep, and wakes up.
  struct Rest {
    Time until;
    bool naps;   // other ranks do not wake it
    bool spins;  // at first; where an operation is pending and nobody else moves messages
  };
  Rest rest(Time now, bool pending);
  void wake();
  bool sleeps() const { return wakes_at_ != Time::min(); }
  bool naps() const { return naps_; }
  // Of a thread that sleeps: whether it has to wake earlier for an operation with this deadline.
  bool oversleeps(Time deadline, Time now) const { return std::min(deadline, now + look_around_) < wakes_at_; }

  // Something moved, or there is a new operation: the thread does not sleep for long next time.
  void be_busy() { busy_ = true; }
  // The thread is to look around by then.
  void look_by(Time time) { next_look_ = std::min(next_look_, time); }
  bool has_to_look(Time now) const { return now >= next_look_; }
  void looks(Time now) { next_look_ = now + look_around_; }
  // While it slept the next look became due.
  bool is_due() const { return next_look_ < wakes_at_; }

  // How long it sleeps where nothing is pending.
  static constexpr std::chrono::minutes kIdle{1};
  // How long it naps after a wait that ended well: another one is expected within that time. So often the thread looks
  // by itself, and each time it may take a core from who moves a message, in this rank or the other.
  static constexpr std::chrono::microseconds kLinger{1000};

 private:
  const Duration look_around_;
  bool helps_ = false;
  bool naps_ = false;
  bool busy_ = false;                 // since the thread last slept
  Time lingers_until_ = Time::min();  // max(): from its next sleep on, for kLinger. No clock is read for that
  Time next_look_{};
  Time wakes_at_ = Time::min();  // min(): it is awake
};

inline bool P2pHelper::may_nap_on(bool well) {
  lingers_until_ = well ? Time::max() : Time::min();
  return well && naps_;
}

inline P2pHelper::Rest P2pHelper::rest(Time now, bool pending) {
  if (lingers_until_ == Time::max()) lingers_until_ = now + kLinger;
  naps_ = now < lingers_until_ && (!pending || helps_);
  wakes_at_ = pending || busy_ ? std::clamp(next_look_, now, now + look_around_) : now + kIdle;
  if (naps_) wakes_at_ = std::min(wakes_at_, lingers_until_);
  busy_ = false;
  return {wakes_at_, naps_, pending && !naps_ && !helps_};
}

inline void P2pHelper::wake() {
  naps_ = false;
  wakes_at_ = Time::min();
}

}  // namespace dtrain
