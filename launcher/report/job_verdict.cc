#include "launcher/report/job_verdict.h"

#include "launcher/job/exit_codes.h"

namespace dtrain::launcher {
namespace {

// The guard gives up the spawns that follow one that failed: such a worker never was anything.
bool called_off(const ExitStatus& status) {
  return status.kind == ExitStatus::Kind::not_started && status.step == SpawnStep::none;
}

std::vector<WorkerEnd> ends_of(const WorkerTable& workers) {
  std::vector<WorkerEnd> ends;
  for (const WorkerRow& row : workers.rows()) {
    if (!row.end || row.outlived || called_off(row.end->status)) continue;
    ends.push_back(*row.end);
    ends.back().last_lines = row.tail.lines();  // what the worker has started may have written after its end
  }
  return ends;
}

// `failed`: the worker whose failure counts; null if there is none.
int exit_code_for(const Outcome& outcome, const WorkerEnd* failed) {
  switch (outcome.cause) {
    case StopCause::success:
      return 0;
    case StopCause::failure: {
      const int code = exit_code_of(failed != nullptr ? failed->status : outcome.first_status);
      return code != 0 ? code : 1;  // 0: a node that is gone blamed a worker that ended well
    }
    case StopCause::stop_signal:
      return 128 + outcome.stop_signal;
    case StopCause::guard_lost:
    case StopCause::other_node:
      break;
  }
  return kExitOwnFailure;
}

}  // namespace

bool ended_here(const WorkerTable& workers, const Outcome& outcome) {
  return !outcome.verdict || (workers.place() && outcome.verdict->node_rank == workers.place()->node_rank);
}

FailureFacts judge(const JobSpec& spec, const WorkerTable& workers, const Outcome& outcome) {
  const bool failed = outcome.cause == StopCause::failure;
  FailureFacts facts;
  facts.run_id = spec.run_id;
  facts.program = spec.program;
  facts.reason = outcome.reason;
  facts.restarts = outcome.restarts;
  facts.max_restarts = spec.max_restarts;
  if (workers.place()) facts.world_size = workers.place()->world_size;
  facts.accused = outcome.accused;
  facts.workers = ends_of(workers);
  if (failed && !ended_here(workers, outcome)) facts.failed_elsewhere = outcome.verdict->reason;
  if (failed && spec.torchrun_report) {
    facts.exit_code = 1;  // torchrun's, whatever the worker's was
  } else if (outcome.verdict) {
    facts.exit_code = outcome.verdict->exit_code;
  } else {
    facts.exit_code = exit_code_for(outcome, failure_that_counts(facts));
  }
  return facts;
}

}  // namespace dtrain::launcher
