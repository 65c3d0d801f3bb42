#pragma once
// What the environment says about the flight recorder (flight.h), and who this process is. Pure.
#include <string>

#include "dtrain/worker_env.h"

namespace dtrain {

struct FlightSettings {
  std::size_t records = 1024;  // 0: nothing is recorded
  std::string folder;          // for files; empty: none are written
  bool make_folder = false;    // the user named it: it may not be there yet
  int signal = 0;              // that asks for a file; 0: none
  int rank = -1;               // -1: no launcher said so
  int world_size = -1;
  int round = 0;
  int restarts = 0;
  std::string job;
};

// Throws ConfigError where a variable makes no sense. Those of the launcher's contract are taken only if they do.
FlightSettings read_flight_settings(const EnvLookup& lookup);

}  // namespace dtrain
