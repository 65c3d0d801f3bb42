// What gc removes.
#include "data/cache/gc_plan.h"

#include "test/support/catch.h"

using namespace dtrain::data;
using std::chrono::hours;
using Names = std::vector<std::string>;

namespace {

const std::vector<GcEntry> kEntries = {
    {"new", 10, hours(1), false}, {"old", 20, hours(50), false}, {"older", 30, hours(90), false}};

}  // namespace

TEST_CASE("without limits gc removes only what dead builds have left") {
  const GcPlan plan = plan_gc(kEntries, {{"a.tmp.1", false}, {"b.tmp.2", true}, {"c.rm.3", false}}, {});
  CHECK(plan.leftovers == Names{"a.tmp.1", "c.rm.3"});
  CHECK(plan.entries.empty());
  CHECK(plan.bytes_left == 60);
}

TEST_CASE("gc removes entries longer unused than the ttl") {
  CHECK(plan_gc(kEntries, {}, {.ttl = hours(50)}).entries == Names{"older"});
  CHECK(plan_gc(kEntries, {}, {.ttl = hours(49)}).entries == Names{"older", "old"});
}

TEST_CASE("gc removes the longest unused until the others are small enough") {
  CHECK(plan_gc(kEntries, {}, {.most_bytes = 60}).entries.empty());
  CHECK(plan_gc(kEntries, {}, {.most_bytes = 59}).entries == Names{"older"});
  CHECK(plan_gc(kEntries, {}, {.most_bytes = 29}).entries == Names{"older", "old"});
  const GcPlan all = plan_gc(kEntries, {}, {.most_bytes = 0});
  CHECK(all.entries == Names{"older", "old", "new"});
  CHECK(all.bytes_left == 0);
}

TEST_CASE("gc leaves what is read, and what was taken just now") {
  std::vector<GcEntry> entries = kEntries;
  entries[2].held = true;
  entries[0].unused = kJustTaken - std::chrono::seconds(1);
  const GcPlan plan = plan_gc(entries, {}, {.ttl = hours(0), .most_bytes = 0});
  CHECK(plan.entries == Names{"old"});
  CHECK(plan.bytes_left == 40);
}
