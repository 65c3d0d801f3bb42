#include "launcher/output/stall_watch.h"

#include "test/support/catch.h"

namespace dtrain::launcher {
namespace {
MonoTime moment(int ms) { return MonoTime{} + std::chrono::milliseconds(ms); }
}  // namespace

TEST_CASE("a full sink that takes nothing is given up after its patience and taken back when drained") {
  StallWatch watch(std::chrono::seconds(2));
  watch.look(false, true, 10, moment(0));
  CHECK_FALSE(watch.deadline());
  watch.look(true, false, 10, moment(1000));
  CHECK(watch.deadline() == moment(3000));
  watch.look(true, false, 10, moment(2999));
  CHECK_FALSE(watch.dropping());
  watch.look(true, false, 10, moment(3000));
  CHECK(watch.dropping());
  CHECK_FALSE(watch.deadline());
  watch.look(false, false, 20, moment(3100));
  CHECK(watch.dropping());  // not yet half empty
  watch.look(false, true, 30, moment(3200));
  CHECK_FALSE(watch.dropping());
}

TEST_CASE("a slow sink is never given up") {
  StallWatch watch(std::chrono::seconds(2));
  for (int second = 0; second < 60; ++second) {
    watch.look(true, false, uint64_t(second), moment(second * 1000));
    CHECK_FALSE(watch.dropping());
    CHECK(watch.deadline() == moment(second * 1000 + 2000));
  }
}

}  // namespace dtrain::launcher
