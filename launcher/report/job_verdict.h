#pragma once
// What a job that did not succeed is said to have ended of: the facts of the report and dtrain's exit code, from how
// the workers of this node ended and what the worker group decided. Pure.
#include "launcher/evidence/worker_table.h"
#include "launcher/job/group_core.h"
#include "launcher/job/job_spec.h"
#include "launcher/report/failure_report.h"

namespace dtrain::launcher {

// `workers`: of the last round. Whom `outcome` holds to blame was the core's provisional answer; root_cause() is asked
// again here, with the ends of all workers.
FailureFacts judge(const JobSpec& spec, const WorkerTable& workers, const Outcome& outcome);

// Whether the cause of the job's end was on this node.
bool ended_here(const WorkerTable& workers, const Outcome& outcome);

}  // namespace dtrain::launcher
