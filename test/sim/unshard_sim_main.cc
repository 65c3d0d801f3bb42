// Simulate the plans of sharded models: unshard_sim FIRST COUNT; see histories.h.
#include "test/sim/histories.h"
#include "test/sim/unshard_world.h"

int main(int argc, char** argv) {
  using dtrain::sim::UnshardWorld;
  UnshardWorld::Tally all;
  return dtrain::sim::simulate<UnshardWorld>(
      argc, argv, [&](const UnshardWorld& world) { all += world.tally(); },
      [&](std::uint64_t count) {
        fmt::print("{} plans, {} operations, {} collectives, {} exceptions, {} units that run again\n", count,
                   all.operations, all.collectives, all.failures, all.recomputed);
      });
}
