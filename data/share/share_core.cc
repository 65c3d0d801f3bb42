#include "data/share/share_core.h"

#include <algorithm>

namespace dtrain::data {

ShareCore::ShareCore(const ShareLimits& limits, int expected, std::int64_t start, Time now)
    : limits_(limits), expected_(expected), start_(start), begun_(now), floor_(start), still_since_(now) {}

ShareCore::Answer ShareCore::ask(int rank) const {
  if (floor_ == start_) return Answer::welcome;
  return came_.contains(rank) ? Answer::again : Answer::late;
}

void ShareCore::joined(std::size_t member, int rank) {
  if (members_.size() <= member) members_.resize(member + 1);
  members_[member] = Seen{.passed = start_};
  came_.insert(rank);
}

void ShareCore::left(std::size_t member) { members_[member].reset(); }

void ShareCore::saw(std::size_t member, const Seen& seen) { *members_[member] = seen; }

std::int64_t ShareCore::floor(Time now) {
  if (awaits(now)) return floor_;
  std::int64_t lowest = INT64_MAX;
  for (const auto& member : members_) {
    if (member) lowest = std::min(lowest, member->passed);
  }
  if (lowest != INT64_MAX && lowest > floor_) {
    floor_ = lowest;
    still_since_ = now;
  }
  return floor_;
}

ShareCore::Verdict ShareCore::blocked(Time now) {
  if (awaits(now)) {
    still_since_ = now;
    return {};
  }
  const auto seen_at = [](const std::optional<Seen>& member) { return member ? member->passed : INT64_MAX; };
  const auto lowest = std::min_element(members_.begin(), members_.end(), [&](const auto& one, const auto& other) {
    return seen_at(one) < seen_at(other);
  });
  if (lowest == members_.end() || !*lowest) return {Verdict::end};
  const bool starves =
      std::any_of(members_.begin(), members_.end(), [](const auto& member) { return member && member->starving; });
  if (!starves) still_since_ = now;
  if (now - still_since_ < limits_.lag) return {};
  return {(*lowest)->copying ? Verdict::end : Verdict::expel, static_cast<std::size_t>(lowest - members_.begin())};
}

bool ShareCore::is_wanted() const {
  return std::any_of(members_.begin(), members_.end(), [](const auto& member) { return member && member->wants; });
}

std::optional<int> ShareCore::missing(Time now) {
  if (told_missing_ || now < begun_ + limits_.join) return std::nullopt;
  told_missing_ = true;
  return std::max(expected_ - known(), 0);
}

}  // namespace dtrain::data
