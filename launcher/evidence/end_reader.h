#pragma once
// Reads what a worker left behind when it ended: the end of its stderr, its error file, whom it blames, a core dump,
// and whether the kernel's out-of-memory killer ended it. Tested by test/process/launcher/blame_test.py.
#include <string>

#include "launcher/evidence/worker_table.h"
#include "launcher/job/job_spec.h"

namespace dtrain::launcher {

class EndReader {
 public:
  // cgroup_folder: of the workers; empty without one. `spec` outlives this object.
  EndReader(const JobSpec& spec, std::string cgroup_folder);

  // The name of this host in reports.
  const std::string& host() const { return host_; }

  // Call before the first worker of a round starts: the out-of-memory killer's counters are compared with those of
  // then.
  void begin_round();
  // Call when the worker has ended and its stderr has been read. after_stop: dtrain had told the worker to end.
  WorkerEnd read(const WorkerRow& row, const ExitStatus& status, bool after_stop, MonoTime now) const;

 private:
  void read_last_words(const WorkerRow& row, WorkerEnd& end) const;

  const JobSpec& spec_;
  const std::string host_;
  const std::string cgroup_folder_;
  OomCounts memory_before_;
};

}  // namespace dtrain::launcher
