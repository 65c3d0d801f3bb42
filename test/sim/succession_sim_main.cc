// Simulate jobs whose nodes choose their host: succession_sim FIRST COUNT; see histories.h.
#include "test/sim/histories.h"
#include "test/sim/succession_world.h"

int main(int argc, char** argv) {
  using dtrain::sim::SuccessionWorld;
  int followed = 0, opened = 0, survived = 0;
  return dtrain::sim::simulate<SuccessionWorld>(
      argc, argv,
      [&](const SuccessionWorld& world) {
        followed += world.followed();
        opened += world.opened();
        survived += world.survived() ? 1 : 0;
      },
      [&](std::uint64_t count) {
        fmt::print("{} jobs, {} rounds, {} hosts chosen, {} with a majority in the end\n", count, opened, followed,
                   survived);
      });
}
