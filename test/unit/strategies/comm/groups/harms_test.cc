// Ranks that are killed or stopped at random moments inside collectives. DTRAIN_SIM_COUNT=n runs so many histories,
// DTRAIN_SIM_SEED=n one.
#include "test/unit/strategies/harms.h"

#include <fmt/format.h>

#include <map>

#include "test/sim/seeds.h"
#include "test/support/catch.h"

using namespace dtrain::test;

TEST_CASE("whoever is killed or stopped inside a collective is named by all others, in time, and leaves nothing") {
  const auto before = shared_memory_names();
  const auto seeds = dtrain::sim::seeds(40);
  struct Sum {
    std::uint64_t histories = 0, calls = 0;
    double slowest = 0;
  };
  std::map<std::string, Sum> sums;
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    const Harm harm = harm_of(seed);
    const Harmed harmed = carry_out(harm);
    INFO(harm.text() << harmed.wrong);
    CHECK(harmed.wrong.empty());
    Sum& sum = sums[harm.stops ? "stopped" : "killed"];
    ++sum.histories;
    sum.calls += harmed.calls;
    sum.slowest = std::max(sum.slowest, harmed.seconds);
  }
  CHECK(shared_memory_names() == before);
  for (const auto& [what, sum] : sums)
    fmt::print("{} ranks {}, after {} calls in all; the others knew {:.3f} s later at most\n", sum.histories, what,
               sum.calls, sum.slowest);
}
