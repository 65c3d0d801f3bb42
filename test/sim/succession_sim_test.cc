// Jobs whose nodes choose their host, each with its own faults: see succession_world.h, and seeds.h for how many.
#include "test/sim/histories_test.h"
#include "test/sim/succession_world.h"
#include "test/support/catch.h"

using namespace dtrain;

TEST_CASE("simulated jobs have one host at a time, and one again after it is lost") {
  const auto seeds = sim::seeds(1000);
  std::uint64_t followed = 0, survived = 0;
  sim::require_histories<sim::SuccessionWorld>(seeds, [&](const sim::SuccessionWorld& world) {
    followed += std::uint64_t(world.followed());
    survived += world.survived() ? 1 : 0;
  });
  if (seeds.count < 100) return;
  CHECK(followed > seeds.count / 2);
  CHECK(survived > seeds.count / 2);
}

TEST_CASE("the same seed gives the same job with the same hosts") { sim::require_same_again<sim::SuccessionWorld>(10); }
