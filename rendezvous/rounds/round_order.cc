#include "rendezvous/rounds/round_order.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace dtrain {

std::vector<std::size_t> neighbours(const std::vector<NodeSite>& nodes) {
  std::map<std::string_view, std::size_t> groups;  // and where their first node is
  std::map<std::pair<std::string_view, std::string_view>, std::size_t> hosts;
  std::vector<std::tuple<std::size_t, std::size_t, std::size_t>> order;
  order.reserve(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto& [topology, host] = nodes[i];
    order.emplace_back(groups.try_emplace(topology, i).first->second,
                       hosts.try_emplace({topology, host}, i).first->second, i);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::size_t> sorted;
  sorted.reserve(order.size());
  for (const auto& place : order) sorted.push_back(std::get<2>(place));
  return sorted;
}

}  // namespace dtrain
