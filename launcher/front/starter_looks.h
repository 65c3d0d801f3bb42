#pragma once
// When to look whether whoever has started this program is still there. A dying process gives up its connections before
// the port where it listens, and on a busy machine it may be long in between, so one look does not tell. Pure.
#include <chrono>
#include <optional>

namespace dtrain::launcher {

class StarterLooks {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr auto kFirstPause = std::chrono::milliseconds(20);
  static constexpr int kLooks = 9;  // with pauses that double: for 5.1 s

  // A sign of its end came: look now, and then again and again.
  void begin(Time now) {
    next_ = now;
    pause_ = kFirstPause;
    left_ = kLooks;
  }
  void end() { left_ = 0; }

  // Empty: there is no reason to look.
  std::optional<Time> next() const { return left_ > 0 ? std::optional(next_) : std::nullopt; }

  // Whether to look now.
  bool take(Time now) {
    if (left_ == 0 || now < next_) return false;
    --left_;
    next_ = now + pause_;
    pause_ *= 2;
    return true;
  }

 private:
  Time next_{};
  std::chrono::milliseconds pause_{};
  int left_ = 0;
};

}  // namespace dtrain::launcher
