#pragma once
// How ssh reaches many hosts: a few of them at once, and each of these some of the rest. Pure.
#include <vector>

namespace dtrain::launcher {

// Agents by number. Whoever starts several of them starts the first one's host as a branch, which starts the rest.
using AgentList = std::vector<int>;

// What one process starts. An agent that is `here` is its own child, beside the others, which are divided into at most
// `fanout` lists, one after the other. Their sizes differ by one at most. With a fanout of 0 each agent is a list.
std::vector<AgentList> divide_agents(const std::vector<char>& here, int fanout);

// By agent: the one through whose host it is reached, or -1. Empty: all are reached straight.
std::vector<int> reached_through(const std::vector<char>& here, int fanout);

}  // namespace dtrain::launcher
