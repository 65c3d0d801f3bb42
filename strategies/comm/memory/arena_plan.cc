// See arena_plan.h.
#include "strategies/comm/memory/arena_plan.h"

#include <algorithm>
#include <iterator>

namespace dtrain {

std::optional<std::size_t> ArenaPlan::allocate(std::size_t bytes) {
  if (bytes > size_) return std::nullopt;
  const std::size_t needed = (std::max<std::size_t>(bytes, 1) + granule_ - 1) / granule_ * granule_;
  auto best = free_.end();
  for (auto gap = free_.begin(); gap != free_.end(); ++gap) {
    if (gap->second >= needed && (best == free_.end() || gap->second < best->second)) best = gap;
  }
  if (best == free_.end()) return std::nullopt;
  const auto [at, room] = *best;
  free_.erase(best);
  if (room > needed) free_[at + needed] = room - needed;
  used_[at] = {needed, false};
  in_use_ += needed;
  return at;
}

std::optional<ArenaPlan::Range> ArenaPlan::release(std::size_t at) {
  const auto found = used_.find(at);
  if (found == used_.end() || found->second.kept) return std::nullopt;
  const Range released{at, found->second.bytes};
  used_.erase(found);
  in_use_ -= released.bytes;
  auto gap = free_.emplace(at, released.bytes).first;
  if (const auto next = std::next(gap); next != free_.end() && gap->first + gap->second == next->first) {
    gap->second += next->second;
    free_.erase(next);
  }
  if (gap != free_.begin()) {
    const auto before = std::prev(gap);
    if (before->first + before->second == gap->first) {
      before->second += gap->second;
      free_.erase(gap);
    }
  }
  return released;
}

void ArenaPlan::keep(std::size_t place) {
  auto next = used_.upper_bound(place);
  if (next == used_.begin()) return;
  const auto found = std::prev(next);
  if (place < found->first + found->second.bytes) found->second.kept = true;
}

}  // namespace dtrain
