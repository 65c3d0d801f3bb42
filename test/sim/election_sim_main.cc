// Simulate agents that find their host by etcd, without a test framework: election_sim FIRST COUNT. Ends with 1 at the
// first seed that breaks, and says why; of one seed, all that happened.
#include <fmt/format.h>

#include <cstdlib>
#include <exception>

#include "test/sim/election_world.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::uint64_t first = std::strtoull(argv[1], nullptr, 10);
  const std::uint64_t count = std::strtoull(argv[2], nullptr, 10);
  int followed = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    dtrain::sim::ElectionWorld world(seed);
    std::string broken;
    try {
      world.run();
    } catch (const std::exception& e) {
      broken = e.what();
      fmt::print("seed {}: {}\n", seed, broken);
    }
    if (count == 1) fmt::print("{}", world.trace());
    if (!broken.empty()) return 1;
    followed += world.followed();
  }
  fmt::print("{} jobs, {} times one host waited for the nodes of another\n", count, followed);
}
