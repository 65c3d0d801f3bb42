// Where state lies in its file, and what a step brings of it.
#include "strategies/optim/state_plan.h"

#include <map>
#include <random>

#include "test/support/catch.h"

using namespace dtrain;

namespace {

constexpr std::uint64_t kMost = 8 << 20;

// Each byte of the file that a job brings, by its place in the job's memory; no two bytes at one place.
std::map<std::uint64_t, std::uint64_t> places_of(const StateJob& job) {
  std::map<std::uint64_t, std::uint64_t> ranges;  // place: begin in the file
  std::uint64_t end = 0;
  for (const FileRange& range : job.ranges) {
    CHECK(range.begin % kFileBlock == 0);
    CHECK(range.bytes % kFileBlock == 0);
    CHECK(range.place == end);
    end += range.bytes;
    ranges[range.place] = range.begin;
  }
  CHECK(end == job.bytes);
  return ranges;
}

std::uint64_t in_file(const std::map<std::uint64_t, std::uint64_t>& places, std::uint64_t place) {
  const auto range = std::prev(places.upper_bound(place));
  return range->second + place - range->first;
}

}  // namespace

TEST_CASE("state plan: regions lie side by side, each row from a block on") {
  std::vector<StateRegion> regions{
      {.count = 1, .states = 2}, {.count = 1025, .states = 1}, {.count = 0, .states = 2}, {.count = 3, .states = 0}};
  CHECK(place_regions(regions) == 2 * 4096 + 8192);
  CHECK(regions[1].begin == 8192);
  CHECK(regions[1].row_bytes() == 8192);
  CHECK(regions[3].begin == 16384);
}

TEST_CASE("state plan: small regions side by side are one request") {
  std::vector<StateRegion> regions(100, {.count = 1000, .states = 2});
  place_regions(regions);
  std::vector<std::size_t> used;
  for (std::size_t i = 0; i < 100; ++i) used.push_back(i);
  const auto jobs = plan_jobs(regions, used, kMost);
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0].ranges.size() == 1);
  CHECK(jobs[0].uses.size() == 100);
  used.erase(used.begin() + 50);  // no gradient
  CHECK(plan_jobs(regions, used, kMost)[0].ranges.size() == 2);
}

TEST_CASE("state plan: a region that is needed whole is one job, whatever its size") {
  std::vector<StateRegion> regions{{.count = 10'000'000, .states = 1, .is_whole = true}};
  place_regions(regions);
  const auto jobs = plan_jobs(regions, {0}, kMost);
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0].bytes == regions[0].bytes());
}

TEST_CASE("state plan: jobs bring each element once, in order, from where it lies") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<StateRegion> regions;
    std::vector<std::size_t> used;
    for (std::size_t i = 0; i < 12; ++i) {
      const auto most = round % 2 == 0 ? 5'000'000 : 100'000;
      regions.push_back({.count = static_cast<std::int64_t>(random() % most),
                         .states = random() % 3,
                         .element_bytes = std::size_t{1} << (1 + random() % 3)});
      if (random() % 4 != 0) used.push_back(i);
    }
    place_regions(regions);
    std::map<std::size_t, std::int64_t> brought;
    for (const StateJob& job : plan_jobs(regions, used, kMost)) {
      CHECK(job.bytes <= kMost);
      const auto places = places_of(job);
      for (const StateUse& use : job.uses) {
        const StateRegion& region = regions[use.region];
        CHECK(brought[use.region] == use.begin);
        CHECK(use.begin % kJobElements == 0);
        brought[use.region] += use.count;
        REQUIRE(use.rows.size() == region.states);
        if (use.count == 0) continue;
        for (std::size_t state = 0; state < region.states; ++state) {
          for (const std::int64_t element : {std::int64_t{0}, use.count - 1}) {
            const auto skipped = static_cast<std::uint64_t>(element) * region.element_bytes;
            CHECK(in_file(places, use.rows[state] + skipped) ==
                  region.begin + state * region.row_bytes() +
                      static_cast<std::uint64_t>(use.begin + element) * region.element_bytes);
          }
        }
      }
    }
    for (const std::size_t i : used) CHECK(brought[i] == regions[i].count);
    CHECK(brought.size() == used.size());
  }
}
