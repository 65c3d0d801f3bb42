#pragma once
// What must hold of the order of a round's nodes, found out in another way than the one that makes it.
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "rendezvous/rounds/round_order.h"

namespace dtrain::test {

// No topology, and in it no host, is begun twice.
inline bool are_neighbours(const std::vector<NodeSite>& nodes) {
  std::set<std::string_view> topologies;
  std::set<std::pair<std::string_view, std::string_view>> hosts;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto& [topology, host] = nodes[i];
    const bool same = i > 0 && nodes[i - 1].topology == topology;
    if (!same && !topologies.insert(topology).second) return false;
    if (!(same && nodes[i - 1].host == host) && !hosts.insert({topology, host}).second) return false;
  }
  return true;
}

}  // namespace dtrain::test
