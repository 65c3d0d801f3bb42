// When a rank's thread naps and how long it sleeps, by given times.
#include "strategies/comm/messages/p2p_helper.h"

#include "test/support/catch.h"

using dtrain::P2pHelper;
using namespace std::chrono_literals;

namespace {

constexpr P2pHelper::Duration kLook = 100ms;
constexpr bool kPending = true, kNothing = false;

P2pHelper::Time at(P2pHelper::Duration since) { return P2pHelper::Time(1h) + since; }

}  // namespace

TEST_CASE("an idle thread sleeps for long, after a turn in which nothing moved") {
  P2pHelper helper(kLook);
  helper.looks(at(0ms));
  helper.be_busy();
  CHECK(helper.rest(at(0ms), kNothing).until == at(kLook));
  helper.wake();
  CHECK_FALSE(helper.sleeps());
  const auto rest = helper.rest(at(100ms), kNothing);
  CHECK(rest.until == at(100ms) + P2pHelper::kIdle);
  CHECK_FALSE(rest.naps);
  CHECK_FALSE(rest.spins);
  CHECK(helper.sleeps());
}

TEST_CASE("with an operation pending the thread looks first, and sleeps until its next look") {
  P2pHelper helper(kLook);
  helper.looks(at(0ms));
  const auto rest = helper.rest(at(30ms), kPending);
  CHECK(rest.until == at(kLook));
  CHECK(rest.spins);
  helper.wake();
  helper.look_by(at(50ms));
  CHECK(helper.rest(at(31ms), kPending).until == at(50ms));
  CHECK_FALSE(helper.has_to_look(at(49ms)));
  CHECK(helper.has_to_look(at(50ms)));
  helper.wake();
  CHECK(helper.rest(at(60ms), kPending).until == at(60ms));  // overdue
}

TEST_CASE("the thread oversleeps an operation that is added while it sleeps for longer") {
  P2pHelper helper(kLook);
  CHECK_FALSE(helper.oversleeps(at(10ms), at(0ms)));  // it is awake
  helper.rest(at(0ms), kNothing);
  CHECK(helper.oversleeps(at(1h), at(0ms)));  // it must look around
  helper.wake();
  helper.looks(at(0ms));
  helper.rest(at(0ms), kPending);
  CHECK(helper.oversleeps(at(99ms), at(1ms)));
  CHECK_FALSE(helper.oversleeps(at(100ms), at(1ms)));
  CHECK_FALSE(helper.is_due());
  helper.look_by(at(99ms));
  CHECK(helper.is_due());
}

TEST_CASE("after a wait that ended well the thread naps once for a millisecond") {
  P2pHelper helper(kLook);
  helper.looks(at(0ms));
  helper.begin();
  CHECK(helper.helps());
  helper.end();
  CHECK_FALSE(helper.helps());
  CHECK_FALSE(helper.may_nap_on(true));  // it does not nap yet
  auto rest = helper.rest(at(5ms), kNothing);
  CHECK(rest.naps);
  CHECK(helper.naps());
  CHECK(rest.until == at(5ms) + P2pHelper::kLinger);
  SECTION("without another wait it then sleeps as ever") {
    helper.wake();
    CHECK_FALSE(helper.naps());
    CHECK_FALSE(helper.rest(at(6ms), kNothing).naps);
  }
  SECTION("what wakes it early does not lengthen the nap") {
    helper.wake();
    rest = helper.rest(at(5ms) + 400us, kNothing);
    CHECK(rest.naps);
    CHECK(rest.until == at(5ms) + P2pHelper::kLinger);
  }
  SECTION("another wait that ends well lets it nap on, and again") {
    CHECK(helper.may_nap_on(true));
    helper.wake();
    rest = helper.rest(at(6ms), kNothing);
    CHECK(rest.naps);
    CHECK(rest.until == at(6ms) + P2pHelper::kLinger);
  }
  SECTION("another wait that leaves something pending ends it") {
    CHECK_FALSE(helper.may_nap_on(false));
    helper.wake();
    CHECK_FALSE(helper.rest(at(5ms) + 400us, kNothing).naps);
  }
}

TEST_CASE("with an operation pending the thread naps only while a caller helps") {
  P2pHelper helper(kLook);
  helper.looks(at(0ms));
  helper.may_nap_on(true);
  auto rest = helper.rest(at(0ms), kPending);
  CHECK_FALSE(rest.naps);
  CHECK(rest.spins);
  helper.wake();
  helper.may_nap_on(true);
  helper.begin();
  rest = helper.rest(at(1ms), kPending);
  CHECK(rest.naps);
  CHECK_FALSE(rest.spins);
}
