// Simulate jobs, without a test framework: job_sim FIRST COUNT. Ends with 1 at the first seed that breaks, and says
// why.
#include <fmt/format.h>

#include <cstdlib>

#include "test/sim/job_world.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::uint64_t first = std::strtoull(argv[1], nullptr, 10);
  const std::uint64_t count = std::strtoull(argv[2], nullptr, 10);
  dtrain::sim::Tally all;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    dtrain::sim::World world(seed, {});
    try {
      world.run();
    } catch (const std::exception& e) {
      fmt::print("seed {}: {}\n", seed, e.what());
      if (count == 1) fmt::print("{}\n{}", world.describe(), world.trace());
      return 1;
    }
    all.rounds += world.tally().rounds;
    all.agents += world.tally().agents;
    all.faults += world.tally().faults;
    all.messages += world.tally().messages;
    all.rejoins += world.tally().rejoins;
    all.waits += world.tally().waits;
  }
  fmt::print("{} jobs, {} agents, {} rounds, {} messages, {} faults, {} rejoins, {} waits for others\n", count,
             all.agents, all.rounds, all.messages, all.faults, all.rejoins, all.waits);
}
