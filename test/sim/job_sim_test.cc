// Whole jobs, simulated: see job_world.h. DTRAIN_SIM_SEED=n replays one, DTRAIN_SIM_COUNT=n runs so many.
#include <cstdlib>
#include <string>

#include "test/sim/job_world.h"
#include "test/support/catch.h"

using namespace dtrain;

namespace {

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

TEST_CASE("whole jobs keep their promises under faults, and end when these stop") {
  const std::uint64_t first = number("DTRAIN_SIM_SEED", 1);
  const std::uint64_t seeds = number("DTRAIN_SIM_COUNT", std::getenv("DTRAIN_SIM_SEED") != nullptr ? 1 : 1000);
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
