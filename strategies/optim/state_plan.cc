// Tested by test/unit/strategies/optim/state_plan_test.cc.
#include "strategies/optim/state_plan.h"

#include <algorithm>

namespace dtrain {
namespace {

std::uint64_t whole_blocks(std::uint64_t bytes) { return (bytes + kFileBlock - 1) / kFileBlock * kFileBlock; }

void add_range(StateJob& job, std::uint64_t begin, std::uint64_t bytes) {
  if (!job.ranges.empty() && job.ranges.back().begin + job.ranges.back().bytes == begin) {
    job.ranges.back().bytes += bytes;
  } else {
    job.ranges.push_back({begin, bytes, job.bytes});
  }
  job.bytes += bytes;
}

void add_all(StateJob& job, const StateRegion& region, std::size_t number) {
  StateUse use{number, 0, region.count};
  for (std::size_t state = 0; state < region.states; ++state)
    use.rows.push_back(job.bytes + state * region.row_bytes());
  add_range(job, region.begin, region.bytes());
  job.uses.push_back(std::move(use));
}

StateJob part_of(const StateRegion& region, std::size_t number, std::int64_t begin, std::int64_t count) {
  StateJob job;
  StateUse use{number, begin, count};
  for (std::size_t state = 0; state < region.states; ++state) {
    const auto first =
        region.begin + state * region.row_bytes() + static_cast<std::uint64_t>(begin) * region.element_bytes;
    use.rows.push_back(job.bytes);
    add_range(job, first, whole_blocks(static_cast<std::uint64_t>(count) * region.element_bytes));
  }
  job.uses.push_back(std::move(use));
  return job;
}

}  // namespace

std::uint64_t StateRegion::row_bytes() const { return whole_blocks(static_cast<std::uint64_t>(count) * element_bytes); }

std::uint64_t place_regions(std::vector<StateRegion>& regions) {
  std::uint64_t end = 0;
  for (StateRegion& region : regions) {
    region.begin = end;
    end += region.bytes();
  }
  return end;
}

std::vector<StateJob> plan_jobs(const std::vector<StateRegion>& regions, const std::vector<std::size_t>& used,
                                std::uint64_t most) {
  std::vector<StateJob> jobs;
  bool is_open = false;  // the last job may get more
  for (const std::size_t number : used) {
    const StateRegion& region = regions[number];
    if (region.bytes() <= most || region.is_whole) {
      if (!is_open || jobs.back().bytes + region.bytes() > most) jobs.emplace_back();
      add_all(jobs.back(), region, number);
      is_open = true;
      continue;
    }
    const std::uint64_t unit = kJobElements * region.states * region.element_bytes;
    const std::int64_t piece = kJobElements * static_cast<std::int64_t>(std::max<std::uint64_t>(most / unit, 1));
    for (std::int64_t begin = 0; begin < region.count; begin += piece)
      jobs.push_back(part_of(region, number, begin, std::min(piece, region.count - begin)));
    is_open = false;
  }
  return jobs;
}

}  // namespace dtrain
