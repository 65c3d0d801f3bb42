#pragma once
// What the agent remembers of a job for its end: who ran, how each worker ended, its last words. Makes the failure report
// and dtrain's exit code out of it.
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/group_core.h"
#include "launcher/job_spec.h"
#include "launcher/log_tree.h"
#include "launcher/tail_buffer.h"
#include "rendezvous/base/clock.h"

namespace dtrain::launcher {

class JobRecord {
 public:
  explicit JobRecord(const JobSpec& spec);

  // The console prefix of a worker, in its colour where the console has colours.
  std::string prefix(int local_rank, int rank) const;

  void begin_round(int round, int restart_count);
  void files(int local_rank, const LogPaths& paths);
  void started(int local_rank, pid_t pid, MonoTime now);
  void ended(int local_rank, const ExitStatus& status, MonoTime now);
  // From here on dtrain itself ends workers: what dies of its signals is a consequence.
  void stopping() { stopping_ = true; }
  // Bytes of a worker's stream (2 * local_rank + (0 stdout, 1 stderr)); the end of stderr is kept.
  void output(int stream, std::string_view bytes);
  void front_lost() { front_lost_ = true; }

  // The end: write the reports (text by `note`, JSON into the log folder and to spec.report_path) if there is anything to
  // report. Returns dtrain's exit code. No outcome: the job was given up because the front was lost.
  int conclude(const std::optional<Outcome>& outcome, const LogTree& logs,
               const std::function<void(const std::string&)>& note);

 private:
  struct Worker {
    pid_t pid = -1;
    MonoTime started{};
    MonoTime ended{};
    std::optional<ExitStatus> status;
    std::string ended_text;  // wall clock, only to be shown
    bool killed_by_dtrain = false;
    std::string oom_evidence;
    LogPaths paths;
    TailBuffer tail;
  };

  const JobSpec& spec_;
  std::string hostname_;
  bool color_;
  int round_ = 0;
  int restart_count_ = 0;
  bool stopping_ = false;
  bool front_lost_ = false;
  std::vector<Worker> workers_;
};

}  // namespace dtrain::launcher
