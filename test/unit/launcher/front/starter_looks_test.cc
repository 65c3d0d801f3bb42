#include "launcher/front/starter_looks.h"

#include <vector>

#include "test/support/catch.h"

using dtrain::launcher::StarterLooks;
using namespace std::chrono_literals;

namespace {

const StarterLooks::Time kSign{1000s};

std::vector<std::chrono::milliseconds> looked_after(StarterLooks& looks) {
  std::vector<std::chrono::milliseconds> after;
  while (const auto next = looks.next()) {
    CHECK_FALSE(looks.take(*next - 1ms));
    CHECK(looks.take(*next));
    after.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(*next - kSign));
  }
  return after;
}

}  // namespace

TEST_CASE("the starter is looked for at once and then less and less often") {
  StarterLooks looks;
  CHECK_FALSE(looks.next());
  CHECK_FALSE(looks.take(kSign));
  looks.begin(kSign);
  CHECK(looked_after(looks) ==
        std::vector<std::chrono::milliseconds>{0ms, 20ms, 60ms, 140ms, 300ms, 620ms, 1260ms, 2540ms, 5100ms});
}

TEST_CASE("a second sign begins the looks again, and what is known ends them") {
  StarterLooks looks;
  looks.begin(kSign - 10s);
  CHECK(looks.take(kSign - 10s));
  looks.begin(kSign);
  CHECK(looks.take(kSign));
  CHECK(looks.next() == kSign + StarterLooks::kFirstPause);
  looks.end();
  CHECK_FALSE(looks.next());
  CHECK_FALSE(looks.take(kSign + 1h));
}
