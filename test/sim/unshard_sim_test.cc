// Plans of sharded models on the streams of several ranks: see unshard_world.h, and seeds.h. Faults are planted, and
// each has to be found.
#include <algorithm>

#include "test/sim/histories_test.h"
#include "test/sim/unshard_world.h"
#include "test/support/catch.h"

using namespace dtrain;
using sim::PlanFault;

namespace {

constexpr std::uint64_t kSeeds = 60;  // of each planted fault

struct Planted {
  PlanFault fault;
  std::vector<std::string> said;  // one of these
};

const std::vector<Planted>& planted() {
  static const std::vector<Planted> all{
      {PlanFault::use_before_gather, {"use of group", "finds"}},
      {PlanFault::freed_in_use, {"used while it is not whole"}},
      {PlanFault::left_too_early, {"use of group", "share_near of group"}},
      {PlanFault::gather_before_left, {"use of group", "share_near of group"}},
      {PlanFault::values_too_early, {"gather of group"}},
      {PlanFault::not_gathered, {"an event that nobody records"}},
      {PlanFault::reduce_before_filled, {"reduce of group", "zeros of group"}},
      {PlanFault::row_too_early, {"reduce of group"}},
      {PlanFault::average_too_late, {"reduce of group", "optimizer of group", "average of group"}},
      {PlanFault::too_far_ahead, {"bytes are gathered ahead"}},
      {PlanFault::other_order, {"ranks come to different collectives", "reduce of group"}},
      {PlanFault::left_out, {"ranks come to different collectives", "deadlock"}}};
  return all;
}

// What the simulator says of a plan, or nothing.
std::string found_in(std::uint64_t seed, PlanFault fault) {
  sim::UnshardWorld world(seed, fault);
  try {
    world.run();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a plan holds, however long its streams take") {
  const auto seeds = sim::seeds(1000);
  sim::UnshardWorld::Tally all;
  sim::require_histories<sim::UnshardWorld>(seeds, [&](const sim::UnshardWorld& world) { all += world.tally(); });
  if (seeds.count < 1000) return;
  CHECK(all.operations > 1000 * seeds.count);
  CHECK(all.collectives > 50 * seeds.count);
  CHECK(all.failures > seeds.count);
  CHECK(all.recomputed > seeds.count);
}

TEST_CASE("each fault that is planted in a plan is found, and said") {
  for (const Planted& each : planted()) {
    std::uint64_t found = 0;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      const std::string said = found_in(seed, each.fault);
      if (said.empty()) continue;
      ++found;
      INFO("fault " << static_cast<int>(each.fault) << ", seed " << seed << ": " << said);
      CHECK(std::any_of(each.said.begin(), each.said.end(),
                        [&](const std::string& text) { return said.find(text) != std::string::npos; }));
    }
    INFO("fault " << static_cast<int>(each.fault));
    CHECK(found > kSeeds / 10);
  }
}

TEST_CASE(
    "a rank with another order of collectives, and ranks that wait for one that does not come, are told as that") {
  std::uint64_t others = 0, deadlocks = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    others += found_in(seed, PlanFault::other_order).starts_with("ranks come to different collectives") ? 1 : 0;
    deadlocks += found_in(seed, PlanFault::left_out).starts_with("deadlock:") ? 1 : 0;
  }
  CHECK(others > 0);
  CHECK(deadlocks > 0);
}

TEST_CASE("the same seed gives the same streams") { sim::require_same_again<sim::UnshardWorld>(20); }
