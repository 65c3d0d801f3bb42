#include "rendezvous/election/host_lease.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace dtrain {

void HostLease::echoed(VoterId from, MonoTime stamp, int round, MonoTime now) {
  if (stamp > now) return;  // it is none of ours
  Heard& heard = heard_[from];
  heard.stamp = std::max(heard.stamp, stamp);
  heard.round = std::max(heard.round, round);
  settle(now);
}

void HostLease::left(VoterId voter, MonoTime now) {
  heard_[voter] = {MonoTime::max(), std::numeric_limits<int>::max()};
  settle(now);
}

void HostLease::propose(int round, VoterSet voters, MonoTime now) {
  round_ = round;
  next_ = std::move(voters);
  settle(now);
}

void HostLease::settle(MonoTime now) {
  if (next_.empty() || now >= bound(next_)) return;
  if (!std::all_of(sets_.begin(), sets_.end(), [this](const VoterSet& set) { return known(set); })) return;
  settled_round_ = round_;
  sets_ = {std::exchange(next_, {})};
  std::erase_if(heard_, [this](const auto& heard) {
    return std::find(sets_[0].begin(), sets_[0].end(), heard.first) == sets_[0].end();
  });
}

bool HostLease::known(const VoterSet& voters) const {
  const auto knows = [this](VoterId voter) {
    const auto it = heard_.find(voter);
    return voter == self_ || (it != heard_.end() && it->second.round >= round_);
  };
  return std::size_t(std::count_if(voters.begin(), voters.end(), knows)) >= blocking(voters);
}

MonoTime HostLease::bound() const {
  MonoTime least = MonoTime::max();
  for (const VoterSet& set : sets_) least = std::min(least, bound(set));
  return least;
}

MonoTime HostLease::bound(const VoterSet& voters) const {
  std::vector<MonoTime> stamps;
  for (const VoterId voter : voters) {
    const auto it = heard_.find(voter);
    stamps.push_back(voter == self_ ? MonoTime::max() : it == heard_.end() ? MonoTime{} : it->second.stamp);
  }
  const auto nth = stamps.begin() + std::ptrdiff_t(blocking(voters)) - 1;
  std::nth_element(stamps.begin(), nth, stamps.end(), std::greater<>());
  return *nth == MonoTime::max() ? *nth : *nth + pulse_.stop_after();
}

}  // namespace dtrain
