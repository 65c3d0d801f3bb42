// Tested by test/unit/data/objects/claim_plan_test.cc.
#include "data/objects/claim_plan.h"

#include <utility>

namespace dtrain::data {

std::vector<const ClaimSeen*> ClaimWait::living(const ClaimSight& sight, LeaseTime now) {
  std::map<std::string, Seen> seen;
  std::vector<const ClaimSeen*> alive;
  for (const ClaimSeen& each : sight.others) {
    const auto before = seen_.find(each.lease.owner);
    const bool is_same = before != seen_.end() && before->second.beat == each.lease.beat;
    const Seen now_seen = is_same ? before->second : Seen{each.lease.beat, now};
    seen.insert_or_assign(each.lease.owner, now_seen);
    if (!each.is_dead && now - now_seen.since < patience_.stale) alive.push_back(&each);
  }
  seen_ = std::move(seen);
  return alive;
}

ClaimStep ClaimWait::wait_or_tell(LeaseTime now) {
  if (now - told_ < patience_.tell) return ClaimStep::wait;
  told_ = now;
  return ClaimStep::tell;
}

ClaimStep ClaimWait::next(const ClaimSight& sight, LeaseTime now) {
  if (sight.whole) return ClaimStep::use;
  std::set<std::string> rivals;
  builder_.reset();
  for (const ClaimSeen* each : living(sight, now)) {
    rivals.insert(each->lease.owner);
    if (each->builds()) builder_ = each->lease;
  }
  if (std::exchange(rivals_, std::move(rivals)) != rivals_) settled_ = now + kClaimSettles;
  // Who may not wait at all may still build.
  const bool is_late = std::exchange(has_looked_, true) && now - began_ >= patience_.most;
  if (!sight.has_own) {
    if (is_late) return ClaimStep::give_up;
    return rivals_.empty() ? ClaimStep::claim : wait_or_tell(now);
  }
  if (builder_) return ClaimStep::withdraw;
  if (rivals_.empty()) return ClaimStep::take;
  if (now < settled_) return ClaimStep::wait;
  return owner_ < *rivals_.begin() ? ClaimStep::take : ClaimStep::withdraw;
}

}  // namespace dtrain::data
