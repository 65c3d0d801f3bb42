// Agents that find their host by etcd, each history with its own faults: see election_world.h, and seeds.h.
#include <stdexcept>

#include "test/sim/election_world.h"
#include "test/sim/seeds.h"
#include "test/support/catch.h"

using namespace dtrain;

TEST_CASE("with lost, late and repeated calls to etcd there is one host at a time, and in the end there is one") {
  const auto [first, count] = sim::seeds(1000);
  std::uint64_t followed = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    sim::ElectionWorld world(seed);
    try {
      world.run();
    } catch (const std::runtime_error& broken) {
      FAIL(broken.what() << "\nreplay with DTRAIN_SIM_SEED=" << seed << "\n" << world.trace());
    }
    followed += std::uint64_t(world.followed());
  }
  if (count >= 100) CHECK(followed > count);
}

TEST_CASE("the same seed gives the same hosts") {
  for (std::uint64_t seed = 1; seed < 10; ++seed) {
    sim::ElectionWorld one(seed), two(seed);
    REQUIRE_NOTHROW(one.run());
    REQUIRE_NOTHROW(two.run());
    REQUIRE(one.trace() == two.trace());
  }
}
