#include "launcher/front/end_requests.h"

#include <chrono>
#include <csignal>

#include "test/support/catch.h"

using namespace dtrain::launcher;
using namespace std::chrono_literals;
using Op = FrontMessage::Op;

namespace {

const EndRequests::Time kStart{1000s};

Op told(EndRequests& ends, int signal, EndRequests::Time now) {
  const auto message = ends.take({signal}, now);
  REQUIRE(message);
  CHECK(message->value == signal);
  return message->op;
}

}  // namespace

TEST_CASE("the agent is told of each request once") {
  EndRequests ends({SIGTERM, SIGINT});
  CHECK_FALSE(ends.any());
  CHECK(told(ends, SIGTERM, kStart) == Op::stop);
  CHECK(ends.any());
  CHECK_FALSE(ends.take({SIGTERM}, kStart + 100ms));  // the same request, from a wrapper
  CHECK(told(ends, SIGINT, kStart + 5s) == Op::stop_again);
}

TEST_CASE("an agent is stuck when a third request comes some time after the second") {
  EndRequests ends({SIGTERM});
  told(ends, SIGTERM, kStart);
  told(ends, SIGTERM, kStart + 10s);
  CHECK_FALSE(ends.agent_is_stuck());
  SECTION("soon: the agent has not had its time") {
    told(ends, SIGTERM, kStart + 10s + EndRequests::kStuckAgent);
    CHECK_FALSE(ends.agent_is_stuck());
    told(ends, SIGTERM, kStart + 20s);
    CHECK(ends.agent_is_stuck());
  }
  SECTION("later") {
    told(ends, SIGTERM, kStart + 10s + EndRequests::kStuckAgent + 1ms);
    CHECK(ends.agent_is_stuck());
  }
}

TEST_CASE("a request is pending until somebody reads it") {
  sigset_t term, before;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  REQUIRE(pthread_sigmask(SIG_BLOCK, &term, &before) == 0);
  const EndRequests ends({SIGTERM}), others({SIGINT});
  CHECK_FALSE(ends.one_is_pending());
  REQUIRE(raise(SIGTERM) == 0);
  CHECK(ends.one_is_pending());
  CHECK_FALSE(others.one_is_pending());
  int taken = 0;
  REQUIRE(sigwait(&term, &taken) == 0);
  CHECK_FALSE(ends.one_is_pending());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  CHECK(ends.is_request(SIGTERM));
  CHECK_FALSE(ends.is_request(SIGINT));
}
