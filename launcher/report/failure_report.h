#pragma once
// The failure report: what people read when a job failed, and the same as JSON for machines (docs/failure-report.md).
// Pure: facts come in, text goes out.
#include <string>
#include <vector>

#include "launcher/evidence/worker_end.h"
#include "launcher/job/root_cause.h"

namespace dtrain::launcher {

struct FailureFacts {
  std::string run_id;
  std::string program;
  int exit_code = 1;   // that dtrain returns
  std::string reason;  // one line: why the job ended, as the worker group's outcome has it
  int restarts = 0;    // used
  int max_restarts = 0;
  int world_size = 1;
  // What another node says of the first failure, if the failure was there; empty: the failure was here.
  std::string failed_elsewhere;
  Blame accused;                   // by workers of other nodes
  std::vector<WorkerEnd> workers;  // any order
};

// The worker to blame (root_cause.h), and then the others that failed by themselves, ordered by Testimony::since. Empty
// if no worker failed by itself and none is blamed.
std::vector<const WorkerEnd*> failures(const FailureFacts& facts);

// The worker to blame; null if there is none.
const WorkerEnd* first_failure(const FailureFacts& facts);
// The worker whose failure gives the exit code: the worker to blame, if that one failed by itself.
const WorkerEnd* failure_that_counts(const FailureFacts& facts);
// What the worker to blame died of, or did, in one line; empty if there is no such worker.
std::string headline_of(const FailureFacts& facts);

struct ReportStyle {
  bool color = false;
};

// The report as lines of text, the first failure last, where the eye is. Ends with a newline.
std::string report_text(const FailureFacts& facts, ReportStyle style = {});

// The report as JSON, indented, ends with a newline. Bytes that are not UTF-8 become U+FFFD.
std::string report_json(const FailureFacts& facts);

// What the user may try next after this end; empty if nothing useful is known.
std::string hint_for(const WorkerEnd& worker);

}  // namespace dtrain::launcher
