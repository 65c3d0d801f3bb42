// The ranks of a node.
#include "strategies/config/rank_fit.h"

#include <vector>

#include "test/support/catch.h"

namespace dtrain::config {
namespace {

int each(const std::vector<int>& nodes, int set) { return ranks_of_a_node(nodes, set); }

TEST_CASE("ranks of a node: equal numbers, one after the other, in each set") {
  CHECK(each({0, 0, 0, 0}, 4) == 4);
  CHECK(each({0, 0, 0, 0}, 2) == 2);  // two sets on a node
  CHECK(each({0, 0, 2, 2}, 4) == 2);
  CHECK(each({0, 1, 2, 3}, 4) == 1);
  CHECK(each({0, 0, 2, 2, 4, 4, 6, 6}, 4) == 2);
  CHECK(each({0, 0, 0, 3}, 4) == 0);
  CHECK(each({0, 0, 2, 3}, 4) == 0);
  CHECK(each({0, 1, 1, 0}, 4) == 0);
  CHECK(each({0, 0, 2, 2, 4, 5, 6, 7}, 4) == 0);  // another number in the second set
  CHECK(each({0, 0, 0, 0, 4, 4, 4, 4}, 2) == 2);
  CHECK(each({0, 0, 0, 3, 3, 3}, 2) == 0);  // the second set spans nodes, the others do not
  CHECK(each({}, 1) == 0);
}

}  // namespace
}  // namespace dtrain::config
