// Tested by test/unit/launcher/hosts/host_tree_test.cc.
#include "launcher/hosts/host_tree.h"

#include <algorithm>
#include <cstddef>

namespace dtrain::launcher {
namespace {

std::vector<AgentList> divided(const AgentList& agents, int fanout) {
  const std::size_t lists = fanout > 0 ? std::min(agents.size(), static_cast<std::size_t>(fanout)) : agents.size();
  std::vector<AgentList> all(lists);
  for (std::size_t i = 0; i < agents.size(); ++i) all[i * lists / agents.size()].push_back(agents[i]);
  return all;
}

void reach(const std::vector<AgentList>& lists, int from, int fanout, std::vector<int>& through) {
  for (const AgentList& list : lists) {
    through[static_cast<std::size_t>(list[0])] = from;
    if (list.size() > 1) reach(divided({list.begin() + 1, list.end()}, fanout), list[0], fanout, through);
  }
}

}  // namespace

std::vector<AgentList> divide_agents(const std::vector<char>& here, int fanout) {
  std::vector<AgentList> all;
  AgentList others;
  for (std::size_t i = 0; i < here.size(); ++i) {
    if (here[i] != 0)
      all.push_back({static_cast<int>(i)});
    else
      others.push_back(static_cast<int>(i));
  }
  for (AgentList& list : divided(others, fanout)) all.push_back(std::move(list));
  return all;
}

std::vector<int> reached_through(const std::vector<char>& here, int fanout) {
  const auto lists = divide_agents(here, fanout);
  if (lists.size() == here.size()) return {};
  std::vector<int> through(here.size(), -1);
  reach(lists, -1, fanout, through);
  return through;
}

}  // namespace dtrain::launcher
