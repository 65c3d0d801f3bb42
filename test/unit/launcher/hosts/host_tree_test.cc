// Which host reaches which.
#include "launcher/hosts/host_tree.h"

#include <algorithm>
#include <cstddef>

#include "test/support/catch.h"

using namespace dtrain::launcher;

namespace {

std::vector<char> far(std::size_t agents) { return std::vector<char>(agents, 0); }

}  // namespace

TEST_CASE("few hosts are reached straight") {
  for (const int fanout : {0, 3, 64}) {
    CHECK(divide_agents(far(3), fanout) == std::vector<AgentList>{{0}, {1}, {2}});
    CHECK(reached_through(far(3), fanout).empty());
  }
  CHECK(reached_through(far(1000), 0).empty());
  CHECK(divide_agents({}, 2).empty());
}

TEST_CASE("many hosts are divided, and the first of each part reaches the rest of it") {
  CHECK(divide_agents(far(7), 2) == std::vector<AgentList>{{0, 1, 2, 3}, {4, 5, 6}});
  CHECK(reached_through(far(7), 2) == std::vector<int>{-1, 0, 1, 0, -1, 4, 4});
  CHECK(divide_agents(far(5), 3) == std::vector<AgentList>{{0, 1}, {2, 3}, {4}});
}

TEST_CASE("the host of the command is its own child, wherever it is in the list") {
  CHECK(divide_agents({0, 1, 0, 0, 0}, 2) == std::vector<AgentList>{{1}, {0, 2}, {3, 4}});
  CHECK(reached_through({0, 1, 0, 0, 0}, 2) == std::vector<int>{-1, -1, 0, -1, 3});
  CHECK(reached_through({1, 0, 0}, 2).empty());
}

TEST_CASE("a branch divides its agents as the submitter counts on it") {
  for (const std::size_t agents : {3U, 16U, 100U, 1000U})
    for (const int fanout : {2, 3, 64}) {
      const auto through = reached_through(far(agents), fanout);
      for (const AgentList& list : divide_agents(far(agents), fanout)) {
        CHECK((through.empty() || through[static_cast<std::size_t>(list[0])] == -1));
        // In the branch, its own agent is agent 0.
        std::vector<char> here = far(list.size());
        here[0] = 1;
        const auto inside = divide_agents(here, fanout);
        CHECK(inside.size() <= static_cast<std::size_t>(fanout) + 1);
        for (std::size_t i = 1; i < inside.size(); ++i) {
          const auto first = static_cast<std::size_t>(list[0] + inside[i][0]);
          CHECK(through[first] == list[0]);
        }
      }
      CHECK(std::count(through.begin(), through.end(), -1) == (through.empty() ? 0 : fanout));
    }
}
