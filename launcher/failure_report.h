#pragma once
// The failure report: what people read when a job failed, and the same as JSON for machines (docs/failure-report.md).
// Pure: all facts come in, text goes out.
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launcher/error_file.h"
#include "launcher/exit_status.h"
#include "launcher/oom_probe.h"
#include "rendezvous/base/clock.h"

namespace dtrain::launcher {

// How one worker of the last round ended.
struct WorkerEnd {
  int rank = 0;
  int local_rank = 0;
  std::string host;
  int pid = 0;  // 0: it never started
  ExitStatus status;
  MonoTime ended{};        // on this node's monotonic clock: who was first
  int64_t ended_unix = 0;  // the same moment in whole seconds since 1970, to compare with the error file's
  std::string ended_text;  // the same moment as printed, e.g. "2026-11-21 10:30:01"
  std::chrono::nanoseconds ran{};
  bool stopped_by_dtrain = false;       // dtrain signalled it before it ended: a consequence, not a cause
  std::vector<std::string> last_lines;  // of stderr, see TailBuffer
  std::optional<ErrorFile> error;
  std::string error_path;  // where it is, and its time as printed; empty without one
  std::string error_text;
  OomVerdict oom;
  std::string core_path;  // empty: none
  std::string log_path;   // a file with its output; empty: none
};

struct FailureFacts {
  std::string run_id;
  std::string program;
  int exit_code = 1;   // that dtrain returns
  std::string reason;  // one line: why the job ended, as the worker group's outcome has it
  int restarts = 0;    // used
  int max_restarts = 0;
  int world_size = 1;
  // The first failure was on another node, which says this about it; empty: it was here.
  std::string failed_elsewhere;
  std::vector<WorkerEnd> workers;  // any order; those that succeeded may be left out
};

// The workers that failed by themselves, the first failure first.
std::vector<const WorkerEnd*> own_failures(const FailureFacts& facts);

// The worker whose failure came first; null if none failed by itself. Order: the time of its end, or of its exception
// where the error file proves that this was earlier (its clock has whole seconds only, so it counts as their end).
const WorkerEnd* first_failure(const FailureFacts& facts);

struct ReportStyle {
  bool color = false;
};

// The report as lines of text, the first failure last, where the eye is. Ends with a newline.
std::string report_text(const FailureFacts& facts, ReportStyle style = {});

// The report as JSON, indented, ends with a newline. Bytes that are not UTF-8 become U+FFFD.
std::string report_json(const FailureFacts& facts);

// What to try next for this end; empty if nothing useful is known.
std::string hint_for(const WorkerEnd& worker);

}  // namespace dtrain::launcher
