#include "strategies/comm/memory/blame.h"

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
  CHECK(blame.judge({3, 5}, only({3, 5}), kStart).guilty == 3);
}

TEST_CASE("blame: all that are missing are asked, and the first that does not answer is named") {
  Blame blame(kStart, true);
  const auto first = blame.judge({3, 5, 6}, only({3, 5, 6}), kStart);  // answers from before do not count
  CHECK(!first.guilty);
  CHECK(first.ask);
  CHECK(blame.due() == kStart + Blame::kPatience);
  CHECK(blame.judge({3, 5, 6}, only({3}), blame.due()).guilty == 5);
}

TEST_CASE("blame: ranks that answer are asked again, but not for ever") {
  Blame blame(kStart, true);
  auto now = kStart;
  while (now < kStart + Blame::kLongest) {
    const auto verdict = blame.judge({2}, only({2}), now);
    CHECK(!verdict.guilty);
    CHECK(verdict.ask);
    CHECK(blame.due() == now + Blame::kPatience);
    now = blame.due();
  }
  CHECK(blame.judge({2}, only({2}), now).guilty == 2);
  // A later step of the call has no more time than that.
  CHECK(Blame(kStart, true).judge({2}, only({2}), now).guilty == 2);
}

TEST_CASE("blame: a rank that is asked for asks at once, and names somebody if it is asked for again") {
  Blame blame(kStart, true);
  const auto early = kStart - milliseconds{9'000};
  blame.hurry(early);
  CHECK(blame.due() == early);
  CHECK(blame.judge({1}, only({}), early).ask);
  blame.hurry(early + milliseconds{500});
  CHECK(blame.due() == early + Blame::kHurriedPatience);
  CHECK(blame.judge({1}, only({}), blame.due()).guilty == 1);
}

TEST_CASE("blame: a rank that nobody asks for any more waits until its own deadline") {
  Blame blame(kStart, true);
  const auto early = kStart - milliseconds{9'000};
  blame.hurry(early);
  CHECK(blame.judge({1}, only({}), early).ask);
  const auto verdict = blame.judge({1}, only({}), blame.due());
  CHECK(!verdict.guilty);
  CHECK(!verdict.ask);
  CHECK(blame.due() == kStart);
  blame.hurry(early + milliseconds{2'000});  // and may be asked for again
  CHECK(blame.due() == early + milliseconds{2'000});
}
