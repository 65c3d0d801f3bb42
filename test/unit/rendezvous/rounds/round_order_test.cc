// Which nodes follow each other in a round.
#include "rendezvous/rounds/round_order.h"

#include "test/support/catch.h"

using namespace dtrain;
using Order = std::vector<std::size_t>;

TEST_CASE("nodes keep their order where nothing is known of them") {
  CHECK(neighbours({}).empty());
  CHECK(neighbours({{"", "a"}, {"", "b"}, {"", "c"}}) == Order{0, 1, 2});
}

TEST_CASE("nodes of one host follow the first of them") {
  CHECK(neighbours({{"", "a"}, {"", "b"}, {"", "a"}, {"", "c"}, {"", "b"}}) == Order{0, 2, 1, 4, 3});
}

TEST_CASE("nodes of one topology follow the first of them, and within it those of one host") {
  CHECK(neighbours({{"rack1", "a"}, {"rack2", "b"}, {"rack1", "c"}, {"rack2", "d"}, {"rack1", "a"}}) ==
        Order{0, 4, 2, 1, 3});
  // The same name of a host in two racks is not one host.
  CHECK(neighbours({{"rack1", "a"}, {"rack2", "a"}, {"rack1", "b"}}) == Order{0, 2, 1});
}

TEST_CASE("who was before another stays so when nodes leave or come at the end") {
  const std::vector<NodeSite> all = {{"r", "a"}, {"s", "b"}, {"r", "c"}, {"r", "a"}, {"s", "d"}};
  std::vector<NodeSite> ordered;
  for (const std::size_t i : neighbours(all)) ordered.push_back(all[i]);
  CHECK(neighbours(ordered) == Order{0, 1, 2, 3, 4});
  for (std::size_t out = 0; out < ordered.size(); ++out) {
    std::vector<NodeSite> rest = ordered;
    rest.erase(rest.begin() + std::ptrdiff_t(out));
    CHECK(neighbours(rest) == Order{0, 1, 2, 3});
  }
  ordered.push_back({"r", "a"});
  CHECK(neighbours(ordered) == Order{0, 1, 5, 2, 3, 4});
}
