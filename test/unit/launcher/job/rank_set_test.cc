#include "launcher/job/rank_set.h"

#include <random>
#include <set>

#include "test/support/catch.h"

namespace dtrain::launcher {

TEST_CASE("ranks are shown as few ranges") {
  RankSet ranks;
  CHECK(ranks.empty());
  CHECK(ranks.text() == "");
  ranks.add(5);
  ranks.add(0, 1);
  ranks.add(2);
  CHECK(ranks.text() == "0-2,5");
  ranks.add(3, 9);
  CHECK(ranks.text() == "0-9");
  ranks.add(12, 13);
  ranks.add(11);
  CHECK(ranks.text() == "0-9,11-13");
  CHECK(ranks.contains(9));
  CHECK_FALSE(ranks.contains(10));
}

TEST_CASE("whatever is added in whatever order, the set is what was added") {
  std::mt19937 random(4);
  for (int i = 0; i < 500; ++i) {
    RankSet ranks;
    std::set<int> expected;
    for (int j = 0; j < 12; ++j) {
      int first = int(random() % 30), last = first + int(random() % 5);
      ranks.add(first, last);
      for (int rank = first; rank <= last; ++rank) expected.insert(rank);
    }
    for (int rank = 0; rank < 40; ++rank) REQUIRE(ranks.contains(rank) == (expected.count(rank) == 1));
    std::string text = ranks.text();
    REQUIRE(std::set<char>(text.begin(), text.end()).count(' ') == 0);
  }
}

}  // namespace dtrain::launcher
