#include "launcher/report/job_verdict.h"

#include <cerrno>
#include <csignal>

#include "test/support/catch.h"

namespace dtrain::launcher {
namespace {

using namespace std::chrono_literals;

JobSpec spec_of(int workers) {
  JobSpec spec;
  spec.run_id = "job-1";
  spec.program = "./train";
  spec.nproc_per_node = workers;
  return spec;
}

WorkerTable table_of(int workers, int node_rank = 0) {
  WorkerTable table(workers);
  Assignment place;
  place.node_rank = node_rank;
  place.world_size = 4;
  table.begin_round(place);
  return table;
}

WorkerEnd& end(WorkerTable& table, int local_rank, ExitStatus status, std::chrono::seconds at) {
  WorkerRow& row = table.row(local_rank);
  WorkerEnd& end = row.end.emplace();
  end.rank = row.rank;
  end.local_rank = local_rank;
  end.status = status;
  end.ended = end.told.since = MonoTime{} + at;
  return end;
}

Outcome outcome_of(StopCause cause) {
  Outcome outcome;
  outcome.cause = cause;
  outcome.reason = "why";
  return outcome;
}

}  // namespace

TEST_CASE("the facts are those of the job, of the outcome and of the last round") {
  JobSpec spec = spec_of(2);
  spec.max_restarts = 3;
  WorkerTable table = table_of(2);
  table.row(0).tail.add("before the end\n");
  end(table, 0, ExitStatus::exited(3), 1s);
  table.row(0).tail.add("after the end\n");
  Outcome outcome = outcome_of(StopCause::failure);
  outcome.restarts = 2;
  const FailureFacts facts = judge(spec, table, outcome);
  CHECK(facts.run_id == "job-1");
  CHECK(facts.reason == "why");
  CHECK(facts.restarts == 2);
  CHECK(facts.max_restarts == 3);
  CHECK(facts.world_size == 4);
  REQUIRE(facts.workers.size() == 1);  // the other has not ended
  CHECK(facts.workers[0].last_lines == std::vector<std::string>{"before the end", "after the end"});
}

TEST_CASE("spawns that were called off are no failures") {
  WorkerTable table = table_of(2);
  end(table, 0, ExitStatus::not_started(SpawnStep::exec, ENOENT), 1s);
  end(table, 1, ExitStatus::not_started(SpawnStep::none, 0), 1s);
  CHECK(judge(spec_of(2), table, outcome_of(StopCause::failure)).workers.size() == 1);
}

TEST_CASE("the exit code is that of the worker to blame, by the time of its cause and not of the news") {
  WorkerTable table = table_of(2);
  end(table, 0, ExitStatus::exited(3), 1s);
  end(table, 1, ExitStatus::exited(4), 2s).told.since = MonoTime{} + 500ms;
  Outcome outcome = outcome_of(StopCause::failure);
  outcome.first_failure = 0;  // what the core said while the workers ended
  outcome.first_status = ExitStatus::exited(3);
  CHECK(judge(spec_of(2), table, outcome).exit_code == 4);
}

TEST_CASE("the exit code of each cause") {
  const WorkerTable table = table_of(1);
  Outcome stopped = outcome_of(StopCause::stop_signal);
  stopped.stop_signal = SIGINT;
  CHECK(judge(spec_of(1), table, stopped).exit_code == 130);
  CHECK(judge(spec_of(1), table, outcome_of(StopCause::guard_lost)).exit_code == 125);
  CHECK(judge(spec_of(1), table, outcome_of(StopCause::other_node)).exit_code == 125);
  // Blamed by another node, and nothing has failed here.
  CHECK(judge(spec_of(1), table, outcome_of(StopCause::failure)).exit_code == 1);
  Outcome none_recorded = outcome_of(StopCause::failure);
  none_recorded.first_status = ExitStatus::exited(7);
  CHECK(judge(spec_of(1), table, none_recorded).exit_code == 7);
}

TEST_CASE("what the nodes agreed on wins over this node's own failure, torchrun's 1 over both") {
  WorkerTable table = table_of(1, 1);
  end(table, 0, ExitStatus::exited(3), 1s);
  Outcome outcome = outcome_of(StopCause::failure);
  outcome.verdict = Verdict{JobEnd::failure, 9, 0, "node 0: rank 0: exit code 9"};
  JobSpec spec = spec_of(1);
  CHECK_FALSE(ended_here(table, outcome));
  CHECK(judge(spec, table, outcome).exit_code == 9);
  CHECK(judge(spec, table, outcome).failed_elsewhere == "node 0: rank 0: exit code 9");
  spec.torchrun_report = true;
  CHECK(judge(spec, table, outcome).exit_code == 1);
  outcome.verdict->node_rank = 1;
  CHECK(ended_here(table, outcome));
  CHECK(judge(spec, table, outcome).failed_elsewhere.empty());
}

TEST_CASE("a node that never was in a round knows of no cause of its own but its outcome's") {
  const WorkerTable table(1);
  CHECK(ended_here(table, outcome_of(StopCause::guard_lost)));
  Outcome outcome = outcome_of(StopCause::other_node);
  outcome.verdict = Verdict{JobEnd::lost, 125, 0, "gone"};
  CHECK_FALSE(ended_here(table, outcome));
  CHECK(judge(spec_of(1), table, outcome).failed_elsewhere.empty());
}

}  // namespace dtrain::launcher
