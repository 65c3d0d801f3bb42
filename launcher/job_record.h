#pragma once
// What the agent remembers of a job for its end: who ran, how each worker ended, its last words. Makes the failure
// report and dtrain's exit code out of it.
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/event_log.h"
#include "launcher/failure_report.h"
#include "launcher/group_core.h"
#include "launcher/job_spec.h"
#include "launcher/log_tree.h"
#include "launcher/oom_probe.h"
#include "launcher/prefix.h"
#include "launcher/status_report.h"
#include "launcher/tail_buffer.h"
#include "launcher/worker_env.h"
#include "rendezvous/base/clock.h"

namespace dtrain::launcher {

class JobRecord {
 public:
  // cgroup_folder: of the workers; empty without one. `note` prints on dtrain's stderr.
  JobRecord(const JobSpec& spec, std::string cgroup_folder, std::function<void(const std::string&)> note);

  // The prefix of a worker's lines.
  Prefix prefix(int local_rank, int rank) const;

  void begin_round(const Assignment& assignment);
  void files(int local_rank, const LogPaths& paths);
  void started(int local_rank, pid_t pid, MonoTime now);
  pid_t pid(int local_rank) const { return workers_[size_t(local_rank)].pid; }
  // For `dtrain status`: the round's workers, and the node's place in it (node rank -1: no round has begun).
  std::vector<WorkerNow> workers_now(MonoTime now) const;
  const Assignment& place() const { return place_; }
  // after_stop: dtrain had told it to end, so this is a consequence.
  void ended(int local_rank, const ExitStatus& status, bool after_stop, MonoTime now);
  // Bytes of a worker's stream (2 * local_rank + (0 stdout, 1 stderr)); the end of stderr is kept.
  void output(int stream, std::string_view bytes);
  void front_lost() { front_lost_ = true; }

  // The end: write the reports (text by `note`, JSON into the log folder and to spec.report_path) if there is anything
  // to report. Returns dtrain's exit code. No outcome: the job was given up because the front was lost.
  int conclude(const std::optional<Outcome>& outcome, const LogTree& logs);

 private:
  struct Worker {
    pid_t pid = 0;
    MonoTime started{};
    MonoTime ended{};
    int64_t ended_unix = 0;
    std::optional<ExitStatus> status;
    bool stopped_by_dtrain = false;
    OomVerdict oom;
    LogPaths paths;
    TailBuffer tail;  // of stderr
  };

  FailureFacts facts(const Outcome& outcome) const;
  WorkerEnd end_of(int local_rank) const;
  void tell_parent(const FailureFacts& facts);
  void log_round(const Assignment& next);
  void log_event(Event event);
  void log_worker(const char* state, int local_rank);
  void log_end(const Outcome& outcome);
  bool ended_here(const Outcome& outcome) const;
  std::string save_json(const std::string& json, bool first_hand, const LogTree& logs) const;

  const JobSpec& spec_;
  std::string hostname_;
  std::string torchruns_hostname_;  // where torchrun's words are spoken
  bool color_;                      // on stdout
  bool color_on_stderr_;
  bool front_lost_ = false;
  Assignment place_;
  const std::chrono::system_clock::time_point begun_at_ = std::chrono::system_clock::now();
  const std::string cgroup_folder_;
  OomCounts memory_before_;
  std::vector<Worker> workers_;
  std::function<void(const std::string&)> note_;
  SteadyClock clock_;
  MonoTime begun_ = clock_.now();
  MonoTime round_begun_ = begun_;
  std::optional<Assignment> assignment_;  // for events: of the round that was complete last
};

}  // namespace dtrain::launcher
