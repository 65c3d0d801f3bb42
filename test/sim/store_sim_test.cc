// Worker stores of several nodes, each history with its own faults: see store_world.h, and seeds.h.
#include <stdexcept>

#include "test/sim/seeds.h"
#include "test/sim/store_world.h"
#include "test/support/catch.h"

using namespace dtrain;

TEST_CASE("a store and its edges answer as one plain store does, and in the end they answer everybody") {
  const auto [first, count] = sim::seeds(1000);
  sim::StoreWorld::Tally all;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    sim::StoreWorld world(seed);
    try {
      world.run();
    } catch (const std::runtime_error& broken) {
      FAIL(broken.what() << "\nreplay with DTRAIN_SIM_SEED=" << seed << "\n" << world.trace());
    }
    all += world.tally();
  }
  if (count < 1000) return;
  CHECK(all.requests > 100 * count);
  CHECK(all.woken > count / 2);
  CHECK(all.refused > 3 * count);
  CHECK(all.cuts > count / 3);
  CHECK(all.rounds > 2 * count);
}

TEST_CASE("the same seed gives the same answers") {
  for (std::uint64_t seed = 1; seed < 30; ++seed) {
    sim::StoreWorld one(seed), two(seed);
    REQUIRE_NOTHROW(one.run());
    REQUIRE_NOTHROW(two.run());
    REQUIRE(one.trace() == two.trace());
  }
}
