#pragma once
// How the simulators run their histories; World(seed), run(), which throws when something must not be, and trace().
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <exception>

#include "test/sim/seeds.h"

namespace dtrain::sim {

// after(world) for each that has held; at the first that breaks broken(seed, world, why), and no more. True: all held.
template <class World, class After, class Broken>
bool run_histories(Seeds seeds, After after, Broken broken) {
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    World world(seed);
    try {
      world.run();
    } catch (const std::exception& e) {
      broken(seed, world, e.what());
      return false;
    }
    after(world);
  }
  return true;
}

// A main() without a test framework, `FIRST COUNT`: ends with 1 at the first seed that breaks, and says why; of one
// seed, all that happened. result(count) says what there was.
template <class World, class After, class Result>
int simulate(int argc, char** argv, After after, Result result) {
  if (argc != 3) return 2;
  const Seeds seeds{std::strtoull(argv[1], nullptr, 10), std::strtoull(argv[2], nullptr, 10)};
  const auto tell = [&](const World& world) {
    if (seeds.count == 1) fmt::print("{}", world.trace());
  };
  const bool held = run_histories<World>(
      seeds,
      [&](const World& world) {
        tell(world);
        after(world);
      },
      [&](std::uint64_t seed, const World& world, const char* why) {
        fmt::print("seed {}: {}\n", seed, why);
        tell(world);
      });
  if (held) result(seeds.count);
  return held ? 0 : 1;
}

}  // namespace dtrain::sim
