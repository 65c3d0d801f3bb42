// Tested by test/unit/data/cache/gc_plan_test.cc.
#include "data/cache/gc_plan.h"

#include <algorithm>

namespace dtrain::data {

GcPlan plan_gc(std::vector<GcEntry> entries, const std::vector<GcLeftover>& leftovers, const GcLimits& limits) {
  GcPlan plan;
  for (const GcLeftover& each : leftovers)
    if (!each.in_use) plan.leftovers.push_back(each.name);
  std::sort(entries.begin(), entries.end(), [](const GcEntry& a, const GcEntry& b) {
    return a.unused != b.unused ? a.unused > b.unused : a.name < b.name;
  });
  for (const GcEntry& each : entries) plan.bytes_left += each.bytes;
  for (const GcEntry& each : entries) {
    if (each.held || each.unused < kJustTaken) continue;
    const bool is_old = limits.ttl && each.unused > *limits.ttl;
    const bool is_too_much = limits.most_bytes && plan.bytes_left > *limits.most_bytes;
    if (!is_old && !is_too_much) continue;
    plan.entries.push_back(each.name);
    plan.bytes_left -= each.bytes;
  }
  return plan;
}

}  // namespace dtrain::data
