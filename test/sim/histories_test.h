#pragma once
// The same for tests.
#include "test/sim/histories.h"
#include "test/support/catch.h"

namespace dtrain::sim {

template <class World, class After>
void require_histories(Seeds seeds, After after) {
  run_histories<World>(seeds, after, [](std::uint64_t seed, const World& world, const char* why) {
    FAIL(why << "\nreplay with DTRAIN_SIM_SEED=" << seed << "\n" << world.trace());
  });
}

// Of seeds from 1 on, less than `end`.
template <class World>
void require_same_again(std::uint64_t end) {
  for (std::uint64_t seed = 1; seed < end; ++seed) {
    World one(seed), two(seed);
    REQUIRE_NOTHROW(one.run());
    REQUIRE_NOTHROW(two.run());
    REQUIRE(one.trace() == two.trace());
  }
}

}  // namespace dtrain::sim
