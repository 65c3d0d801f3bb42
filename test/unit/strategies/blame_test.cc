#include "strategies/comm/blame.h"

#include <algorithm>

#include "test/support/catch.h"

using namespace dtrain;
using std::chrono::milliseconds;

namespace {

const Blame::Time kStart{milliseconds{10'000}};

std::function<bool(int)> only(std::vector<int> answers) {
  return [answers](int rank) { return std::find(answers.begin(), answers.end(), rank) != answers.end(); };
}

}  // namespace

TEST_CASE("blame: where nobody can wait for another, the first that is missing is named at the deadline") {
  Blame blame(kStart, false);
  CHECK(blame.due() == kStart);
  CHECK(blame.judge({3, 5}, only({3, 5}), kStart) == 3);
}

TEST_CASE("blame: all that are missing are asked, and the first that does not answer is named") {
  Blame blame(kStart, true);
  CHECK(blame.judge({3, 5, 6}, only({3, 5, 6}), kStart) == std::nullopt);  // answers from before do not count
  CHECK(blame.due() == kStart + Blame::kPatience);
  CHECK(blame.judge({3, 5, 6}, only({3}), blame.due()) == 5);
}

TEST_CASE("blame: ranks that answer are asked again, as often as said") {
  Blame blame(kStart, true);
  auto now = kStart;
  for (int round = 0; round < Blame::kRounds; ++round) {
    CHECK(blame.judge({2}, only({2}), now) == std::nullopt);
    CHECK(blame.due() == now + Blame::kPatience);
    now = blame.due();
  }
  CHECK(blame.judge({2}, only({2}), now) == 2);
}

TEST_CASE("blame: a rank that is asked for asks at once, but is not hurried twice") {
  Blame blame(kStart, true);
  const auto early = kStart - milliseconds{200};
  blame.hurry(early);
  CHECK(blame.due() == early);
  CHECK(blame.judge({1}, only({}), early) == std::nullopt);
  blame.hurry(early + milliseconds{1});
  CHECK(blame.due() == early + Blame::kPatience);
  blame.hurry(kStart + milliseconds{1});
  CHECK(blame.due() == early + Blame::kPatience);
}
