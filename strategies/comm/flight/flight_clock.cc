// See flight_clock.h.
#include "strategies/comm/flight/flight_clock.h"

#include <chrono>
#include <fstream>
#include <string>

namespace dtrain {
namespace {

#ifdef __x86_64__
std::int64_t processor_ticks() { return static_cast<std::int64_t>(__builtin_ia32_rdtsc()); }

// The kernel has found them to go on at one rate, and alike on all cores.
bool can_count_ticks() {
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string source;
  return file >> source && source == "tsc";
}
#else
std::int64_t processor_ticks() { return 0; }
bool can_count_ticks() { return false; }
#endif

std::int64_t system_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::int64_t ns_between(const ClockPoint& first, const ClockPoint& second, std::int64_t ticks) {
  if (second.ticks <= first.ticks) return second.ns;
  const double rate = static_cast<double>(second.ns - first.ns) / static_cast<double>(second.ticks - first.ticks);
  // From the nearer end: what a double cannot hold of a long time does not matter there.
  const ClockPoint& from = ticks - first.ticks < second.ticks - ticks ? first : second;
  return from.ns + static_cast<std::int64_t>(static_cast<double>(ticks - from.ticks) * rate);
}

FlightClock::FlightClock() : counts_ticks_(can_count_ticks()), start_(now()) {}

std::int64_t FlightClock::ticks() const { return counts_ticks_ ? processor_ticks() : system_ns(); }

ClockPoint FlightClock::now() const {
  const std::int64_t ns = system_ns();
  return {counts_ticks_ ? processor_ticks() : ns, ns};
}

}  // namespace dtrain
