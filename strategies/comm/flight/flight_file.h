#pragma once
// The flight recorder's file: one rank's operations as JSON, an operation a line. `dtrain flight` reads it; a golden
// file in test/golden/flight pins it. Pure.
#include <cstdint>
#include <string>

#include "strategies/comm/flight/flight_ring.h"
#include "strategies/comm/flight/flight_settings.h"

namespace dtrain {

// Why it is written.
struct FlightCause {
  std::string kind;         // "signal", "timed_out", "mismatched"
  std::uint32_t group = 0;  // FlightGroup::id, and the rank of it that did not come or does not fit; of a failure alone
  int rank = -1;
};

struct FlightHost {
  std::string name;
  int pid = 0;
};

// All times in nanoseconds of the rank's own clock.
std::string flight_file(const FlightRing::Snapshot& all, const FlightSettings& settings, const FlightHost& host,
                        const FlightCause& cause, std::int64_t now_ns);

// Its name in the folder.
std::string flight_file_name(int rank);

}  // namespace dtrain
