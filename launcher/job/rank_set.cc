#include "launcher/job/rank_set.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "rendezvous/base/check.h"

namespace dtrain::launcher {

void RankSet::add(int first, int last) {
  DT_CHECK(0 <= first && first <= last, "a range of ranks goes up");
  auto it = ranges_.upper_bound(first);
  if (it != ranges_.begin() && std::prev(it)->second >= first - 1) --it;
  while (it != ranges_.end() && it->first - 1 <= last) {
    first = std::min(first, it->first);
    last = std::max(last, it->second);
    it = ranges_.erase(it);
  }
  ranges_[first] = last;
}

bool RankSet::contains(int rank) const {
  auto it = ranges_.upper_bound(rank);
  return it != ranges_.begin() && std::prev(it)->second >= rank;
}

std::string RankSet::text() const {
  std::string out;
  for (const auto& [first, last] : ranges_) {
    out += fmt::format("{}{}", out.empty() ? "" : ",", first);
    if (last > first) out += fmt::format("-{}", last);
  }
  return out;
}

}  // namespace dtrain::launcher
