#pragma once
// The monotonic clock of a simulated machine: it began at some time of its own, and is fast or slow by as much as is
// allowed (link_pulse.h). The world's time is what an outsider sees.
#include <random>

#include "rendezvous/base/clock.h"

namespace dtrain::sim {

struct NodeClock {
  Duration ahead{};
  int ppm = 0;  // fast; slow: negative

  static constexpr int kMostPpm = 10'000;
  // Of a machine that has been up for so long at `now`.
  static NodeClock drawn(std::mt19937_64& random, MonoTime now, std::chrono::seconds up) {
    NodeClock clock{{}, std::uniform_int_distribution<int>(-kMostPpm, kMostPpm)(random)};
    clock.ahead = MonoTime(up) - clock.at(now);
    return clock;
  }

  // What it shows then.
  MonoTime at(MonoTime now) const { return now + ahead + now.time_since_epoch() / 1000 * ppm / 1000; }
  // When it shows that.
  MonoTime when(MonoTime shown) const {
    if (shown == MonoTime::max()) return shown;
    const double since = double((shown - ahead).time_since_epoch().count());
    MonoTime now(Duration(std::int64_t(since / (1 + ppm * 1e-6))));
    while (at(now) < shown) now += std::chrono::nanoseconds(100);
    return now;
  }
};

}  // namespace dtrain::sim
