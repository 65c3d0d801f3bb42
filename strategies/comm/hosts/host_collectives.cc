// How the hosts of a group connect, and barrier; see host_collectives.h.
#include "strategies/comm/hosts/host_collectives.h"

#include <algorithm>

namespace dtrain {
namespace {

std::size_t host_of(const std::vector<std::vector<int>>& hosts, int rank) {
  std::size_t host = 0;
  while (std::find(hosts[host].begin(), hosts[host].end(), rank) == hosts[host].end()) ++host;
  return host;
}

}  // namespace

HostCollectives::HostCollectives(GroupStore& store, const std::vector<PeerFacts>& facts, int rank,
                                 LocalCollectives& local, ShmWait::Deadline deadline)
    : rank_(rank),
      hosts_(by_host(facts)),
      here_(host_of(hosts_, rank)),
      ranks_(facts.size()),
      layered_(hosts_.size() < facts.size()),
      local_(local),
      links_(store, rank, others(), local.wait(), deadline) {
  local_.wait().look_elsewhere([this](const std::string& during) { links_.heed(during); }, [this] { links_.answer(); });
  const CollectiveCall call = CollectiveCall::forming(deadline);
  Sends sends;
  Receives receives;
  for (const int other : others()) {
    sends.push_back({other, {}});
    receives.push_back({other, {}});
  }
  run(call, [&] { links_.exchange(call, sends, receives); });
}

std::vector<int> HostCollectives::others() const {
  std::vector<int> ranks;
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    if (host != here_) ranks.insert(ranks.end(), hosts_[host].begin(), hosts_[host].end());
  }
  return ranks;
}

HostCollectives::Leaders HostCollectives::leaders(int root) const {
  Leaders ranks;
  for (const std::vector<int>& host : hosts_) {
    const bool has_root = std::find(host.begin(), host.end(), root) != host.end();
    ranks.push_back(has_root ? root : host.front());
  }
  return ranks;
}

void HostCollectives::barrier(const CollectiveCall& call) {
  run(call, [&] {
    const Leaders ranks = leaders();
    if (layered_) local_.barrier_here(call);
    if (leads(ranks)) {
      Sends sends;
      Receives receives;
      for (const int leader : ranks) {
        if (leader == rank_) continue;
        sends.push_back({leader, {}});
        receives.push_back({leader, {}});
      }
      links_.exchange(call, sends, receives);
    }
    if (layered_) local_.barrier_here(call);
  });
}

}  // namespace dtrain
