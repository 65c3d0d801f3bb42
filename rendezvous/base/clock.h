#pragma once
// Time in dtrain is monotonic. Cores take `MonoTime now` as an argument; only shells ask SteadyClock.
#include <chrono>

namespace dtrain {

using SteadyClock = std::chrono::steady_clock;
using MonoTime = SteadyClock::time_point;
using Duration = std::chrono::nanoseconds;

inline double in_seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace dtrain
