#pragma once
// What others can cause is not said without end: so many lines in ten seconds, none twice in a row, and the last of
// them says that more are left out. Pure.
#include <chrono>
#include <optional>
#include <string>

#include "rendezvous/base/clock.h"

namespace dtrain {

class ReportLimit {
 public:
  static constexpr std::chrono::seconds kWindow{10};  // from its first line on

  explicit ReportLimit(int most) : most_(most) {}

  // The line as it is to be said; none: it is not.
  std::optional<std::string> admit(std::string line, MonoTime now) {
    if (!begun_ || now - *begun_ > kWindow) {
      begun_ = now;
      said_ = 0;
      last_.clear();
    }
    // Who is turned away tries again and again.
    if (line == last_) return std::nullopt;
    last_ = line;
    if (said_ >= most_) return std::nullopt;
    if (++said_ == most_) line += " (further lines of these ten seconds are left out)";
    return line;
  }

 private:
  const int most_;
  std::optional<MonoTime> begun_;
  int said_ = 0;
  std::string last_;
};

}  // namespace dtrain
