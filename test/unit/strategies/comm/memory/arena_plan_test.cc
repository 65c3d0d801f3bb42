// Which ranges an arena gives out.
#include "strategies/comm/memory/arena_plan.h"

#include <random>
#include <vector>

#include "test/support/catch.h"

using dtrain::ArenaPlan;

TEST_CASE("an arena gives out the smallest gap that has room") {
  ArenaPlan plan(10 * 64, 64);
  const auto a = plan.allocate(3 * 64), b = plan.allocate(1), c = plan.allocate(2 * 64), d = plan.allocate(64);
  REQUIRE((a && b && c && d));
  CHECK(*b == 3 * 64);
  CHECK(plan.end() == 7 * 64);
  plan.release(*a);
  plan.release(*c);
  CHECK(plan.end() == 7 * 64);
  CHECK(plan.allocate(2 * 64) == c);
  CHECK(plan.allocate(3 * 64 + 1) == std::nullopt);
  CHECK(plan.allocate(3 * 64) == a);
}

TEST_CASE("what is released joins its neighbours, and all of it can be had again") {
  ArenaPlan plan(4 * 64, 64);
  std::vector<std::size_t> ranges;
  for (int i = 0; i < 4; ++i) ranges.push_back(plan.allocate(64).value());
  CHECK(plan.allocate(1) == std::nullopt);
  for (const int i : {1, 3, 2, 0}) CHECK(plan.release(ranges[static_cast<std::size_t>(i)]).has_value());
  CHECK(plan.in_use() == 0);
  CHECK(plan.end() == 0);
  CHECK(plan.allocate(4 * 64) == 0);
}

TEST_CASE("a range that is kept is never given out again") {
  ArenaPlan plan(2 * 64, 64);
  const auto at = plan.allocate(64);
  plan.keep(*at + 63);
  CHECK(plan.release(*at) == std::nullopt);
  CHECK(plan.allocate(2 * 64) == std::nullopt);
  CHECK(plan.allocate(64) != at);
  plan.keep(7 * 64);  // nothing lies there
}

TEST_CASE("what was never given out, and more than there is, changes nothing") {
  ArenaPlan plan(64, 64);
  CHECK(plan.release(0) == std::nullopt);
  CHECK(plan.allocate(65) == std::nullopt);
  CHECK(plan.allocate(~std::size_t{0}) == std::nullopt);
  CHECK(plan.allocate(0) == 0);
}

TEST_CASE("ranges in use never overlap, in any order of calls") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    constexpr std::size_t kGranules = 40;
    ArenaPlan plan(kGranules * 64, 64);
    std::vector<int> owner(kGranules, -1);  // of each granule
    std::vector<std::pair<std::size_t, std::size_t>> live;
    for (int step = 0; step < 300; ++step) {
      if (random() % 2 == 0 && !live.empty()) {
        const std::size_t which = random() % live.size();
        const auto [at, granules] = live[which];
        const auto freed = plan.release(at);
        REQUIRE((freed && freed->at == at && freed->bytes == granules * 64));
        for (std::size_t i = 0; i < granules; ++i) owner[at / 64 + i] = -1;
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
        continue;
      }
      const std::size_t granules = 1 + random() % 6;
      const auto at = plan.allocate(granules * 64);
      std::size_t gap = 0, longest = 0;
      for (const int o : owner) longest = std::max(longest, gap = o < 0 ? gap + 1 : 0);
      REQUIRE(at.has_value() == (granules <= longest));
      if (!at) continue;
      for (std::size_t i = 0; i < granules; ++i) {
        REQUIRE(owner[*at / 64 + i] == -1);
        owner[*at / 64 + i] = step;
      }
      live.emplace_back(*at, granules);
    }
  }
}
