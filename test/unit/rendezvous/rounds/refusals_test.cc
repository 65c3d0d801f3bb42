// What the host of a job tells of nodes that it refuses, and when it waits for no more.
#include "rendezvous/rounds/refusals.h"

#include "rendezvous/rounds/round_core.h"
#include "test/support/catch.h"
#include "test/unit/rendezvous/round_job.h"

using namespace dtrain;
using namespace std::chrono_literals;
using test::Job, test::settings, test::Words;

TEST_CASE("the host's user is told once of each refused node, and again when the wait was in vain") {
  Job job(settings(2, 2));
  job.join(1);
  const auto comes = [&](MemberId id, auto change) {
    NodeInfo info = job.info(id);
    change(info);
    job.hear(id, msg::Join{info});
  };
  const auto three = [](NodeInfo& i) { i.min_nodes = i.max_nodes = 3; };
  const std::string line = "refused a node from h: --nnodes 3 there, 2 here";
  comes(8, three);
  CHECK(job.said ==
        Words{"8: refused: --nnodes 3 here, but 2 at the node that hosts the job; use the same on all nodes"});
  CHECK(job.told == Words{line});
  comes(9, three);  // the same node, typed again
  CHECK(job.told.empty());
  comes(10, [](NodeInfo& i) { i.job = "k"; });
  CHECK(job.told.back() == "refused a node from h: it belongs to job k");
  comes(11, [](NodeInfo& i) { i.wanted_rank = 1; });
  CHECK(job.told.back() == "refused a node from h: --rdzv-backend static there, c10d here");
  comes(12, [](NodeInfo& i) { i.times.pulse_ms = 2000; });
  CHECK(job.told.back() ==
        "refused a node from h: --rdzv-conf keep_alive_interval and keep_alive_max_attempt 2 s "
        "and 3 there, 1 s and 3 here");
  CHECK(job.core.phase() == RoundPhase::gathering);
  job.later(600s);
  CHECK(job.core.ended_because() == "only 1 of 2 nodes came within 600 s (--rdzv-conf join_timeout); " + line +
                                        "; refused a node from h: it belongs to job k; refused a node from h: "
                                        "--rdzv-backend static there, c10d here; and 1 more");
}

TEST_CASE("of refused nodes without end the host's user is told of some") {
  Job job(settings(2, 2));
  job.join(1);
  std::size_t told = 0;
  std::string last;
  for (int i = 1; i <= 100; ++i) {
    NodeInfo info = job.info(9);
    info.max_restarts = i;
    job.hear(9, msg::Join{info});
    told += job.told.size();
    if (!job.told.empty()) last = job.told.back();
  }
  CHECK(told == Refusals::kMost);
  CHECK(last.ends_with(" (further ones are not reported)"));
  CHECK(job.core.turned_away("somebody").empty());
  job.later(600s);
  CHECK(job.core.ended_because().ends_with("; and many more"));
  CHECK(job.core.ended_because().size() < 500);
}

TEST_CASE("in a job with numbers the wait ends when each node is here or was refused for good") {
  RoundSettings own = settings(3, 3);
  own.fixed_ranks = true;
  const auto comes = [](Job& job, MemberId id, int rank, int restarts = 0, const char* name = "j") {
    NodeInfo info = job.info(id);
    info.wanted_rank = rank;
    info.max_restarts = restarts;
    info.job = name;
    job.hear(id, msg::Join{info});
  };
  Job job(own);
  comes(job, 1, 0);
  comes(job, 2, 1, 5);  // refused
  CHECK(job.core.phase() == RoundPhase::gathering);
  comes(job, 3, 1, 5, "another");
  comes(job, 4, 2, 0, "another");  // of another job, which says nothing about ours
  CHECK(job.core.phase() == RoundPhase::gathering);
  comes(job, 5, 2);
  CHECK(job.said == Words{"1: end 125", "5: end 125"});
  CHECK(job.core.ended_because().starts_with(
      "no other node can come; refused a node from h: --max-restarts 5 there, 0 here; "));

  Job mended(own);
  comes(mended, 1, 0);
  comes(mended, 2, 1, 5);
  comes(mended, 3, 1);  // the same, typed as it should be
  comes(mended, 4, 1);  // a second one with its number
  CHECK(mended.core.phase() == RoundPhase::gathering);
  comes(mended, 5, 2);
  CHECK(mended.core.phase() == RoundPhase::running);

  Job early(own);  // the refused ones come before the host of the job
  comes(early, 2, 1, 5);
  comes(early, 3, 2, 5);
  CHECK(early.core.phase() == RoundPhase::gathering);
  comes(early, 1, 0);
  CHECK(early.said == Words{"1: end 125"});
}
