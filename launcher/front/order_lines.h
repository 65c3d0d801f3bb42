#pragma once
// The signals that an engine sends to an agent as lines of text (launcher/engine_wire/agent_wire.h). Pure.
#include <string_view>

namespace dtrain::launcher {

class OrderLines {
 public:
  // Calls take(int signal) for each line that a chunk completes. A line that is no number from 1 to 64 does not count.
  template <class Take>
  void feed(std::string_view chunk, Take&& take) {
    for (const char c : chunk) {
      if (c == '\n') {
        if (number_ > 0) take(number_);
        number_ = 0;
      } else if (number_ >= 0 && c >= '0' && c <= '9' && number_ * 10 + (c - '0') <= kHighest) {
        number_ = number_ * 10 + (c - '0');
      } else {
        number_ = kNone;
      }
    }
  }

 private:
  static constexpr int kHighest = 64, kNone = -1;
  int number_ = 0;  // of the line so far
};

}  // namespace dtrain::launcher
