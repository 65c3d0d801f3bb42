// How often a round that runs is stopped for nodes that come (round_patience.h).
#include "rendezvous/rounds/round_core.h"
#include "test/support/catch.h"
#include "test/unit/rendezvous/round_job.h"

using namespace dtrain;
using namespace std::chrono_literals;
using test::Job, test::settings, test::Words;

TEST_CASE("a node that is lost again and again waits longer each time before the others stop for it") {
  Job job(settings(1, 2));
  job.own.awaits_others = true;
  job.join(1);
  job.join(2);
  MemberId connection = 2;
  const auto lost = [&] {
    job.gone(connection);
    job.over(1, false);
    REQUIRE(job.core.phase() == RoundPhase::running);
  };
  const auto back = [&] {
    NodeInfo same = job.info(2);
    same.attempt = int(++connection);
    job.hear(connection, msg::Join{same});
  };
  for (int i = 0; i < 2; ++i) {
    lost();
    back();
    REQUIRE(job.said.front() == "1: stop");
    job.over(1, false);
  }
  for (const Duration wait : {30s, 60s, 120s}) {
    lost();
    job.now += 1s;
    back();
    REQUIRE(job.said == Words{std::to_string(connection) + ": spare"});
    REQUIRE(job.core.deadline());
    CHECK(*job.core.deadline() == job.now - 1s + wait);
    job.later(wait - 1001ms);
    CHECK(job.said.empty());
    job.later(1ms);
    REQUIRE(job.said == Words{"1: stop"});
    job.over(1, false);
    CHECK(job.said.size() == 2);
    CHECK_FALSE(job.core.deadline());
  }
  // Half an hour later nobody remembers.
  job.now += 30min;
  lost();
  back();
  CHECK(job.said.front() == "1: stop");
}

TEST_CASE("a node that is lost again and again is taken at once where it is needed") {
  RoundSettings s = settings(2, 2);
  s.awaits_others = true;
  Job job(s);
  job.join(1);
  job.join(2);
  for (int i = 0; i < 6; ++i) {
    job.gone(2);
    job.over(1, false);
    job.join(2);
    REQUIRE(job.core.phase() == RoundPhase::running);
    REQUIRE(job.said.size() == 2);
  }
}

TEST_CASE("of many nodes that come one by one some come in together") {
  Job job(settings(1, 20));
  job.join(1);
  job.later(30s);
  MemberId next = 2;
  const auto goes_on = [&] {
    for (MemberId id = 1; id < next; ++id)
      if (job.core.phase() == RoundPhase::stopping) job.over(id, false);
  };
  for (int i = 0; i < 5; ++i, job.now += 1s) {
    job.join(next++);
    REQUIRE(job.core.phase() == RoundPhase::stopping);
    goes_on();
  }
  for (int i = 0; i < 3; ++i) {
    job.join(next);
    CHECK(job.said == Words{std::to_string(next) + ": spare"});
    ++next;
  }
  CHECK(*job.core.deadline() == job.now - 5s + 30s);
  job.later(24s);
  CHECK(job.said.empty());
  // One that goes meanwhile is not missed.
  job.gone(next - 1);
  job.later(1s);
  CHECK(job.core.phase() == RoundPhase::stopping);
  goes_on();
  CHECK(job.said.size() == 8);
}
