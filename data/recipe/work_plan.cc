#include "data/recipe/work_plan.h"

#include <algorithm>
#include <numeric>

namespace dtrain::data {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
// What the program has before it reads a row: Arrow's libraries, their buffers.
constexpr std::int64_t kBaseBytes = 48 * kMiB;
// How often a thread has its block: as it was read, changed, put into order, and encoded.
constexpr std::int64_t kCopies = 5;

// Ends of runs of units with about the same bytes.
std::vector<std::size_t> runs(const std::vector<std::int64_t>& unit_bytes, std::int64_t run_bytes) {
  std::vector<std::size_t> firsts{0};
  std::int64_t filled = 0;
  for (std::size_t unit = 0; unit < unit_bytes.size(); ++unit) {
    if (filled >= run_bytes) {
      firsts.push_back(unit);
      filled = 0;
    }
    filled += unit_bytes[unit];
  }
  firsts.push_back(unit_bytes.size());
  return firsts;
}

// At most `count` runs, each with a unit at least: run i ends where i / count of the bytes are reached.
std::vector<std::size_t> equal_runs(const std::vector<std::int64_t>& unit_bytes, std::int64_t all_bytes,
                                    std::size_t count) {
  count = std::min(count, unit_bytes.size());
  std::vector<std::size_t> firsts{0};
  double before = 0;
  for (std::size_t unit = 0; unit < unit_bytes.size(); ++unit) {
    const double due = static_cast<double>(all_bytes) * static_cast<double>(firsts.size()) / static_cast<double>(count);
    const std::size_t runs_left = count - firsts.size(), units_left = unit_bytes.size() - unit;
    const bool has_unit = unit > firsts.back();
    if (has_unit && runs_left > 0 && (before >= due || units_left <= runs_left)) firsts.push_back(unit);
    before += static_cast<double>(unit_bytes[unit]);
  }
  firsts.push_back(unit_bytes.size());
  return firsts;
}

}  // namespace

WorkPlan plan_work(const WorkFacts& facts) {
  constexpr std::int64_t kBlockMin = kMiB / 4, kBlockMax = 64 * kMiB, kBlocks = 64;
  const std::int64_t all = std::accumulate(facts.unit_bytes.begin(), facts.unit_bytes.end(), std::int64_t{0});
  const std::int64_t largest = *std::max_element(facts.unit_bytes.begin(), facts.unit_bytes.end());
  const std::int64_t memory = std::max(facts.memory_bytes - kBaseBytes, facts.memory_bytes / 4);
  WorkPlan plan;
  plan.counts_bytes = memory / 8;
  // A unit is in memory as a whole anyway, so blocks and buckets may be as large.
  plan.block_bytes = std::max(std::clamp(std::min(all / kBlocks, memory / kBlocks), kBlockMin, kBlockMax), largest);
  plan.partitions = facts.parallelism ? equal_runs(facts.unit_bytes, all, static_cast<std::size_t>(*facts.parallelism))
                                      : runs(facts.unit_bytes, plan.block_bytes);
  const std::int64_t of_thread = kCopies * plan.block_bytes;
  plan.threads = std::clamp<std::size_t>(static_cast<std::size_t>(memory / 3 / of_thread), 1, facts.threads);
  const std::int64_t left = memory / 8 * 7 - of_thread * static_cast<std::int64_t>(plan.threads);
  plan.store_bytes = std::clamp(left, memory / 8, memory / 2);
  return plan;
}

}  // namespace dtrain::data
