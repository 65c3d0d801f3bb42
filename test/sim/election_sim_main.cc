// Simulate agents that find their host by etcd: election_sim FIRST COUNT; see histories.h.
#include "test/sim/election_world.h"
#include "test/sim/histories.h"

int main(int argc, char** argv) {
  using dtrain::sim::ElectionWorld;
  int followed = 0;
  return dtrain::sim::simulate<ElectionWorld>(
      argc, argv, [&](const ElectionWorld& world) { followed += world.followed(); },
      [&](std::uint64_t count) {
        fmt::print("{} jobs, {} times one host waited for the nodes of another\n", count, followed);
      });
}
