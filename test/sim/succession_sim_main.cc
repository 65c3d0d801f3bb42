// Simulate jobs whose nodes choose their host, without a test framework: succession_sim FIRST COUNT. Ends with 1 at the
// first seed that breaks, and says why; of one seed, all that happened.
#include <fmt/format.h>

#include <cstdlib>
#include <exception>

#include "test/sim/succession_world.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::uint64_t first = std::strtoull(argv[1], nullptr, 10);
  const std::uint64_t count = std::strtoull(argv[2], nullptr, 10);
  int followed = 0, opened = 0, survived = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    dtrain::sim::SuccessionWorld world(seed);
    try {
      world.run();
    } catch (const std::exception& e) {
      fmt::print("seed {}: {}\n", seed, e.what());
      if (count == 1) fmt::print("{}", world.trace());
      return 1;
    }
    followed += world.followed();
    opened += world.opened();
    survived += world.survived() ? 1 : 0;
    if (count == 1) fmt::print("{}", world.trace());
  }
  fmt::print("{} jobs, {} rounds, {} hosts chosen, {} with a majority in the end\n", count, opened, followed, survived);
}
