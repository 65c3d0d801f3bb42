#pragma once
// The flight recorder's clock. It is read twice an operation, which with the system's own would be a seventh of a small
// one: so it counts the processor's ticks where the kernel keeps its time by them, and nanoseconds elsewhere.
#include <cstdint>

namespace dtrain {

// A moment by two clocks.
struct ClockPoint {
  std::int64_t ticks = 0;
  std::int64_t ns = 0;
};

// The nanoseconds of a moment near or between two others, of which the second is later.
std::int64_t ns_between(const ClockPoint& first, const ClockPoint& second, std::int64_t ticks);

// Any thread.
class FlightClock {
 public:
  FlightClock();

  std::int64_t ticks() const;
  ClockPoint now() const;  // ns: of CLOCK_MONOTONIC
  // What was read of it once, since it was made.
  std::int64_t to_ns(std::int64_t ticks, const ClockPoint& now) const { return ns_between(start_, now, ticks); }

 private:
  const bool counts_ticks_;
  const ClockPoint start_;
};

}  // namespace dtrain
