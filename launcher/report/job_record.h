#pragma once
// The agent's record of a job: keeps the table of workers, and writes what the user and other programs read of it,
// which are torchrun's events while the job runs, and at its end the failure report (text and JSON) and the error file
// of a launcher above this one. Decides nothing: job_events.h and job_verdict.h do. Tested by
// test/process/launcher/trouble_test.py.
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/events/job_events.h"
#include "launcher/evidence/end_reader.h"
#include "launcher/evidence/worker_table.h"
#include "launcher/job/group_core.h"
#include "launcher/job/job_spec.h"
#include "launcher/logs/log_tree.h"
#include "launcher/report/failure_report.h"
#include "rendezvous/base/clock.h"

namespace dtrain::launcher {

class JobRecord {
 public:
  // cgroup_folder: of the workers; empty without one. `note` prints on dtrain's stderr. `spec` outlives this object.
  JobRecord(const JobSpec& spec, std::string cgroup_folder, std::function<void(const std::string&)> note);

  const WorkerTable& workers() const { return workers_; }

  void begin_round(const Assignment& assignment);
  void files(int local_rank, const LogPaths& paths) { workers_.row(local_rank).paths = paths; }
  void started(int local_rank, pid_t pid, MonoTime now);
  // The others go on without the worker that has failed: its end is no cause of theirs.
  void outlived(int local_rank) { workers_.row(local_rank).outlived = true; }
  // A new process is about to be started in its place.
  void replaced(int local_rank) { workers_.replace(local_rank); }
  // after_stop: dtrain had told the worker to end. Returns what the worker's end is ranked by.
  Testimony ended(int local_rank, const ExitStatus& status, bool after_stop, MonoTime now);
  // Bytes of a worker's stream (2 * local_rank + (0 stdout, 1 stderr)); the end of stderr is kept.
  void output(int stream, std::string_view bytes);
  void front_lost() { front_lost_ = true; }

  // The end: write the reports (text by `note`, JSON into the log folder and to spec.report_path) if there is anything
  // to report. Returns dtrain's exit code. No outcome: the job was given up because the front was lost.
  int conclude(const std::optional<Outcome>& outcome, const LogTree& logs);

 private:
  Moment now() const;
  void write(const JobEvents::Lines& events);
  std::string save_json(const std::string& json, bool first_hand, const LogTree& logs) const;
  void tell_parent(const FailureFacts& facts);

  const JobSpec& spec_;
  const std::function<void(const std::string&)> note_;
  const std::chrono::system_clock::time_point begun_at_ = std::chrono::system_clock::now();
  const MonoTime began_ = SteadyClock::now();
  EndReader ends_;
  WorkerTable workers_;
  std::optional<JobEvents> events_;  // none: nobody asked for events
  bool front_lost_ = false;
};

}  // namespace dtrain::launcher
