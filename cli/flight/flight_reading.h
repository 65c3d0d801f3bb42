#pragma once
// One rank's file of the flight recorder (strategies/comm/flight/flight_file.h), taken apart. Pure.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/result.h"

namespace dtrain::cli {

inline constexpr std::size_t kFlightFileBytes = std::size_t{512} << 20;

struct FlightOp {
  enum class State { queued, running, done, failed };

  std::uint64_t serial = 0;  // in the order of the rank's calls
  std::uint64_t number = 0;  // of the group's collectives, or of its messages, from 1
  std::uint32_t group = 0;   // FlightPart::id
  std::string op;
  std::string type;       // empty: no tensors
  std::string reduction;  // empty: it does not reduce
  std::string origin;     // whose call it was; empty: the program's own
  int root = -1;          // -1: none
  bool message = false;
  int peer = -1;  // of a message; -1: any rank
  int tag = 0;
  std::uint64_t tensors = 0;
  std::uint64_t elements = 0;
  std::vector<std::vector<std::int64_t>> shapes;  // of the first tensors
  State state = State::queued;
  std::int64_t queued_ns = 0, started_ns = 0, ended_ns = 0;  // of the rank's own clock; 0: not yet

  bool is_over() const { return state == State::done || state == State::failed; }
};

// A rank's part in one group.
struct FlightPart {
  std::uint32_t id = 0;  // in this file
  std::string key;       // in all files
  std::string name;
  int rank = 0;
  int size = 1;
  std::uint64_t queued = 0, finished = 0;  // collectives
};

struct FlightReading {
  std::string path;
  std::string job;
  int round = 0;
  int rank = 0;
  int world_size = 1;
  std::string host;
  int pid = 0;
  std::string cause;  // "signal", "timed_out", "mismatched"
  std::uint32_t cause_group = 0;
  int cause_rank = -1;  // of that group
  std::int64_t now_ns = 0;
  std::vector<FlightPart> parts;
  std::vector<FlightOp> ops;

  const FlightPart* part(std::uint32_t id) const;
};

// Errors (usage): it is no such file, or of a version that this dtrain does not read.
Result<FlightReading> read_flight(std::string_view text, std::string path);

}  // namespace dtrain::cli
