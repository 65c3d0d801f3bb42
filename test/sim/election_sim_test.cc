// Agents that find their host by etcd, each history with its own faults: see election_world.h, and seeds.h.
#include "test/sim/election_world.h"
#include "test/sim/histories_test.h"
#include "test/support/catch.h"

using namespace dtrain;

TEST_CASE("with lost, late and repeated calls to etcd there is one host at a time, and in the end there is one") {
  const auto seeds = sim::seeds(1000);
  std::uint64_t followed = 0;
  sim::require_histories<sim::ElectionWorld>(
      seeds, [&](const sim::ElectionWorld& world) { followed += std::uint64_t(world.followed()); });
  if (seeds.count >= 100) CHECK(followed > seeds.count);
}

TEST_CASE("the same seed gives the same hosts") { sim::require_same_again<sim::ElectionWorld>(10); }
