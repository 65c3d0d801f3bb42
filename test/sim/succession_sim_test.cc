// Jobs whose nodes choose their host, each with its own faults: see succession_world.h, and seeds.h for how many.
#include <stdexcept>

#include "test/sim/seeds.h"
#include "test/sim/succession_world.h"
#include "test/support/catch.h"

using namespace dtrain;

TEST_CASE("simulated jobs have one host at a time, and one again after it is lost") {
  const auto [first, count] = sim::seeds(1000);
  std::uint64_t followed = 0, survived = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    sim::SuccessionWorld world(seed);
    try {
      world.run();
    } catch (const std::runtime_error& broken) {
      FAIL(broken.what() << "\nreplay with DTRAIN_SIM_SEED=" << seed << "\n" << world.trace());
    }
    followed += std::uint64_t(world.followed());
    survived += world.survived() ? 1 : 0;
  }
  if (count < 100) return;
  CHECK(followed > count / 2);
  CHECK(survived > count / 2);
}

TEST_CASE("the same seed gives the same job with the same hosts") {
  for (std::uint64_t seed = 1; seed < 10; ++seed) {
    sim::SuccessionWorld one(seed), two(seed);
    REQUIRE_NOTHROW(one.run());
    REQUIRE_NOTHROW(two.run());
    REQUIRE(one.trace() == two.trace());
  }
}
