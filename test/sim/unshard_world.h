#pragma once
// The plan of a sharded model (unshard_core.h) on several ranks with a stream each for computing, gathering and
// reducing, which take any time: see stream_machine.h for what must never happen, and unshard_program.h for what the
// ranks do.
#include <cstdint>
#include <string>

#include "test/sim/unshard_rank.h"

namespace dtrain::sim {

class UnshardWorld {
 public:
  explicit UnshardWorld(std::uint64_t seed, PlanFault fault = PlanFault::none) : seed_(seed), fault_(fault) {}
  // Throws std::runtime_error.
  void run();
  std::string trace() const { return about_ + trace_; }

  struct Tally {
    std::uint64_t operations = 0, collectives = 0, failures = 0, recomputed = 0;
    Tally& operator+=(const Tally& more);
  };
  const Tally& tally() const { return tally_; }

 private:
  std::uint64_t seed_;
  PlanFault fault_;
  std::string about_, trace_;
  Tally tally_;
};

}  // namespace dtrain::sim
