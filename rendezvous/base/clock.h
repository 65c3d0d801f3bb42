#pragma once
// Time in dtrain is monotonic and injected. Cores take `MonoTime now` as an argument; only shells hold a Clock.
#include <chrono>

namespace dtrain {

using MonoTime = std::chrono::steady_clock::time_point;
using Duration = std::chrono::nanoseconds;

inline double in_seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonoTime now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  MonoTime now() const override { return std::chrono::steady_clock::now(); }
};

}  // namespace dtrain
