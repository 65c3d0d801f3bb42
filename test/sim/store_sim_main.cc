// Simulate worker stores: store_sim FIRST COUNT; see histories.h.
#include "test/sim/histories.h"
#include "test/sim/store_world.h"

int main(int argc, char** argv) {
  using dtrain::sim::StoreWorld;
  StoreWorld::Tally all;
  return dtrain::sim::simulate<StoreWorld>(
      argc, argv, [&](const StoreWorld& world) { all += world.tally(); },
      [&](std::uint64_t count) {
        fmt::print("{} stores, {} rounds, {} clients, {} of them turned away, {} requests, {} woken, {} links cut\n",
                   count, all.rounds, all.clients, all.refused, all.requests, all.woken, all.cuts);
      });
}
