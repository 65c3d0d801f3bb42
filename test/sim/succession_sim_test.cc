// Jobs whose nodes choose their host, each with its own faults (succession_world.h). DTRAIN_SIM_COUNT: how many.
#include <algorithm>
#include <cstdlib>

#include "test/sim/succession_world.h"
#include "test/support/catch.h"

TEST_CASE("simulated jobs have one host at a time, and one again after it is lost") {
  const char* wanted = std::getenv("DTRAIN_SIM_COUNT");
  // One of these is as long as a hundred of the other simulations.
  const int seeds = wanted != nullptr ? std::max(100, std::atoi(wanted) / 100) : 100;
  int followed = 0, survived = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    INFO("seed " << seed);
    dtrain::sim::SuccessionWorld world{std::uint64_t(seed)};
    REQUIRE_NOTHROW(world.run());
    followed += world.followed();
    survived += world.survived() ? 1 : 0;
  }
  CHECK(followed > seeds / 2);
  CHECK(survived > seeds / 2);
}
