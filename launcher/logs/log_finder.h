#pragma once
// Finds the workers' log files of one job, in dtrain's tree or torchrun's (log_tree.h has the layout).
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/job/job_spec.h"
#include "rendezvous/base/result.h"

namespace dtrain::launcher {

struct LogFile {
  std::string path;
  int local_rank = 0;
  Streams which = Streams::out;
  int64_t written_unix = 0;  // when it was last written to
};

// attempt_<restart_count>, or attempt_<restart_count>_<again> for a later round with the same count.
struct LogAttempt {
  std::string path;
  int restart_count = 0;
  int again = 1;
  std::vector<LogFile> files;  // by local rank, stdout first
};

struct JobLogs {
  std::string path;                  // the job's folder
  int jobs = 1;                      // how many jobs the folder that was named has; this is the newest
  std::vector<LogAttempt> attempts;  // in the order of the rounds
};

// "attempt_1_2" -> restart count 1, again 2; false for any other name.
bool parse_attempt(const std::string& name, LogAttempt& attempt);

// `folder` is a job's folder, or one that holds the folders of several jobs. Errors (usage): it cannot be read, or
// there is no job's folder.
Result<JobLogs> find_logs(const std::string& folder);

}  // namespace dtrain::launcher
