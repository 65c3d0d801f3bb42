// Simulate worker stores, without a test framework: store_sim FIRST COUNT. Ends with 1 at the first seed that breaks,
// and says why; of one seed, all that happened.
#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <string>

#include "test/sim/store_world.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::uint64_t first = std::strtoull(argv[1], nullptr, 10);
  const std::uint64_t count = std::strtoull(argv[2], nullptr, 10);
  dtrain::sim::StoreWorld::Tally all;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    dtrain::sim::StoreWorld world(seed);
    std::string broken;
    try {
      world.run();
    } catch (const std::exception& e) {
      broken = e.what();
      fmt::print("seed {}: {}\n", seed, broken);
    }
    if (count == 1) fmt::print("{}", world.trace());
    if (!broken.empty()) return 1;
    all += world.tally();
  }
  fmt::print("{} stores, {} rounds, {} clients, {} of them turned away, {} requests, {} woken, {} links cut\n", count,
             all.rounds, all.clients, all.refused, all.requests, all.woken, all.cuts);
}
