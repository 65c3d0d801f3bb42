// A job of SLURM's that is to go back into the queue.
#include "cli/engines/requeue.h"

#include <fmt/format.h>

#include <csignal>

#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::cli;
using namespace std::chrono_literals;

namespace {

std::string says(const std::string& limit = "08:00:00", const std::string& run = "00:10:00", const char* batch = "1",
                 const char* requeue = "1") {
  return "JobId=12 JobName=x Requeue=" + std::string(requeue) + " Restarts=0 BatchFlag=" + batch + " RunTime=" + run +
         " TimeLimit=" + limit + " TimeMin=N/A\n";
}

}  // namespace

TEST_CASE("durations of SLURM's") {
  CHECK(*parse_slurm_duration("00:01:00") == 60s);
  CHECK(*parse_slurm_duration("1-02:03:04") == 24h + 2h + 3min + 4s);
  CHECK(*parse_slurm_duration("05:00") == 5min);
  for (const char* text :
       {"", "UNLIMITED", "5", "1-", "-1:00", "1:2:3:4", "1:-2", "99999999999999999999:00", "1-x:00"}) {
    INFO(text);
    CHECK_FALSE(parse_slurm_duration(text).ok());
  }
}

TEST_CASE("a batch job is asked to save before its end, and then to end") {
  const auto plan = plan_requeue("12", says(), 120s, 30s);
  REQUIRE(plan.ok());
  CHECK(plan->ask == 7h + 48min);
  CHECK(plan->last == 7h + 49min + 30s);
  const auto late = plan_requeue("12", says("00:01:00", "00:00:50"), 9s, 30s);
  REQUIRE(late.ok());
  CHECK(late->ask == 1s);
  CHECK(late->last == 1s);
}

TEST_CASE("what SLURM would not requeue is told at once") {
  const auto why = [](const std::string& text) { return plan_requeue("12", text, 120s, 30s).error().message; };
  CHECK(why(says("1:00", "0:00", "0")) ==
        "job 12 is no batch job, and SLURM requeues no others: submit it with sbatch");
  CHECK(why(says("1:00", "0:00", "1", "0")) == "SLURM does not requeue job 12: submit it with sbatch --requeue");
  CHECK(why(says("UNLIMITED")) == "job 12 has no time limit (UNLIMITED): submit it with sbatch --time");
  CHECK(why(says("00:02:10", "00:00:10")) == "job 12 has 120 s left, and is to save 120 s before its end");
  CHECK(why("Requeue=1 BatchFlag=1") == "job 12 has no time limit (scontrol names none): submit it with sbatch --time");
}

TEST_CASE("a job goes back that has saved, and no other") {
  const RequeuePlan plan{"12", 10s, 100s, true};
  CHECK(goes_back(plan, 75, 11s));
  CHECK(goes_back(plan, 138, 11s));        // no handler for SIGUSR1
  CHECK_FALSE(goes_back(plan, 0, 11s));    // all is done
  CHECK_FALSE(goes_back(plan, 75, 9s));    // a failure
  CHECK_FALSE(goes_back(plan, 143, 11s));  // scancel
  CHECK(goes_back(plan, 143, 101s));       // its own SIGTERM
}

TEST_CASE("workers are asked to save and later to end, or to end at once where agents write the state") {
  RequeuePlan plan{"12", 10s, 100s, true};
  const MonoTime began{5s};
  auto signals = planned_signals(plan, began);
  REQUIRE(signals.size() == 2);
  CHECK((signals[0].at == MonoTime(15s) && signals[0].signal == SIGUSR1));
  CHECK((signals[1].at == MonoTime(105s) && signals[1].signal == SIGTERM));
  CHECK(asked(plan) == 10s);
  plan.agents_write = true;
  signals = planned_signals(plan, began);
  REQUIRE(signals.size() == 1);
  CHECK((signals[0].at == MonoTime(15s) && signals[0].signal == SIGTERM));
  plan.leads = false;
  CHECK(planned_signals(plan, began).empty());
  CHECK(asked(plan) == 9s);
  // Nobody else tells the workers of a node that is a job of its own.
  plan.together = false;
  signals = planned_signals(plan, began);
  REQUIRE(signals.size() == 1);
  CHECK((signals[0].at == MonoTime(15s) && signals[0].signal == SIGTERM));
  CHECK(asked(plan) == 10s);
}

TEST_CASE("a stopped job may run again while it is not over for SLURM, or has been given back") {
  using launcher::NextRun;
  const auto next = [](const char* state, const char* restarts, int before, const char* batch = "1",
                       const char* requeue = "1", const char* reason = "None") {
    return next_run(fmt::format("JobId=12 Requeue={} Restarts={} BatchFlag={} JobState={} Reason={}", requeue, restarts,
                                batch, state, reason),
                    before);
  };
  CHECK(next("RUNNING", "0", 0) == NextRun::may_come);
  CHECK(next("COMPLETING", "1", 0) == NextRun::may_come);
  CHECK(next("PENDING", "3", 2) == NextRun::may_come);
  CHECK(next("COMPLETING", "0", 0) == NextRun::cancelled);  // scancel
  CHECK(next("CANCELLED", "2", 2) == NextRun::cancelled);
  CHECK(next("CANCELLED", "0", 0, "0") == NextRun::cancelled);
  CHECK(next("COMPLETING", "0", 0, "1", "1", "TimeLimit") == NextRun::none);
  CHECK(next("COMPLETING", "0", 0, "1", "1", "NonZeroExitCode") == NextRun::none);
  CHECK(next("TIMEOUT", "0", 0) == NextRun::none);
  CHECK(next("RUNNING", "0", 0, "0") == NextRun::none);
  CHECK(next("RUNNING", "0", 0, "1", "0") == NextRun::none);
  CHECK(next_run("", 0) == NextRun::none);
}
