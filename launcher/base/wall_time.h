#pragma once
// Wall-clock time for people: local, or in the zone of TZ, as date(1) has it.
#include <chrono>
#include <string>

namespace dtrain::launcher {

// "2026-11-21T13:22:03.123+01:00"
std::string iso_time(std::chrono::system_clock::time_point at);

}  // namespace dtrain::launcher
