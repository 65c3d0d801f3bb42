#pragma once
// How one worker of a round ended, and what it left behind that tells why. Plain data: end_reader.h fills it in when
// the worker has ended, job_verdict.h and the reports read it.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/evidence/error_file.h"
#include "launcher/job/exit_status.h"
#include "launcher/job/root_cause.h"
#include "launcher/process/oom_probe.h"
#include "rendezvous/base/clock.h"

namespace dtrain::launcher {

struct WorkerEnd {
  int rank = 0;  // of the job
  int local_rank = 0;
  std::string host;
  int pid = 0;  // 0: the worker never started
  ExitStatus status;
  Testimony told;          // what root_cause() ranks this end by
  MonoTime ended{};        // on this node's monotonic clock
  std::string ended_text;  // the same moment as printed, e.g. "2026-11-21 10:30:01"
  int64_t ended_unix = 0;  // the same moment in whole seconds since 1970
  std::chrono::nanoseconds ran{};
  std::vector<std::string> last_lines;  // of stderr, see TailBuffer
  std::string exception;                // that ended the worker, in one line; empty if none is known
  std::optional<ErrorFile> error;
  std::string error_path;  // where the error file is; empty without one
  std::string error_text;  // the error file's time as printed; empty without one
  OomVerdict oom;
  std::string core_path;  // empty: no core dump
  std::string log_path;   // a file with the worker's output; empty: none
};

// The part of an end that root_cause() ranks.
inline Fate fate_of(const WorkerEnd& end) { return {end.rank, end.status, end.told}; }

}  // namespace dtrain::launcher
