// Whole jobs, simulated: see job_world.h, and seeds.h for how many.
#include <string>

#include "test/sim/job_world.h"
#include "test/sim/seeds.h"
#include "test/support/catch.h"

using namespace dtrain;

TEST_CASE("whole jobs keep their promises under faults, and end when these stop") {
  const auto [first, seeds] = sim::seeds(1000);
  std::set<std::string> ends;
  int rejoins = 0, waits = 0;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    sim::World world(seed, {});
    try {
      world.run();
    } catch (const sim::Broken& broken) {
      FAIL(broken.what() << "\nreplay with DTRAIN_SIM_SEED=" << seed << "\n"
                         << world.describe() << "\n"
                         << world.trace());
    }
    rejoins += world.tally().rejoins;
    waits += world.tally().waits;
    ends.insert(world.tally().ends.begin(), world.tally().ends.end());
  }
  // Success, failure, stopped by a user, a node lost, nobody came: the histories reach them all.
  if (seeds >= 1000) CHECK(rejoins > 5);
  if (seeds >= 1000) CHECK(waits > 0);
  if (seeds >= 1000) CHECK(ends == std::set<std::string>{"0", "1", "2", "3", "4"});
}

TEST_CASE("without faults every job ends well in its first round, with few messages") {
  for (std::uint64_t seed = 1; seed < 300; ++seed) {
    sim::World world(seed, {false});
    INFO(world.describe());
    REQUIRE_NOTHROW(world.run());
    CHECK(world.succeeded());
    CHECK(world.tally().restarts == 0);
  }
}

TEST_CASE("the same seed gives the same job") {
  for (std::uint64_t seed = 1; seed < 30; ++seed) {
    sim::World one(seed, {}), two(seed, {});
    REQUIRE_NOTHROW(one.run());
    REQUIRE_NOTHROW(two.run());
    REQUIRE(one.trace() == two.trace());
  }
}
