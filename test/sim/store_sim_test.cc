// Worker stores of several nodes, each history with its own faults: see store_world.h, and seeds.h.
#include "test/sim/histories_test.h"
#include "test/sim/store_world.h"
#include "test/support/catch.h"

using namespace dtrain;

TEST_CASE("a store and its edges answer as one plain store does, and in the end they answer everybody") {
  const auto seeds = sim::seeds(1000);
  sim::StoreWorld::Tally all;
  sim::require_histories<sim::StoreWorld>(seeds, [&](const sim::StoreWorld& world) { all += world.tally(); });
  if (seeds.count < 1000) return;
  CHECK(all.requests > 100 * seeds.count);
  CHECK(all.woken > seeds.count / 2);
  CHECK(all.refused > 3 * seeds.count);
  CHECK(all.cuts > seeds.count / 3);
  CHECK(all.rounds > 2 * seeds.count);
}

TEST_CASE("the same seed gives the same answers") { sim::require_same_again<sim::StoreWorld>(30); }
