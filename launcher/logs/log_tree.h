#pragma once
// LogTree: the folder of one job's logs and error files.
//
//   <base>/<run_id>_<random8>/attempt_<restart_count>/<local_rank>/{stdout.log,stderr.log,error.json}
//
// Folders are 0700 and files 0600. Nothing is ever overwritten: a worker that finds its folder taken (a round with the
// same restart count) gets attempt_<restart_count>_2, _3, ...
#include <string>

#include "launcher/job_spec.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

// Where one worker's files are; empty where there is none.
struct LogPaths {
  std::string out;
  std::string err;
  std::string error_file;  // may be written by the worker
};

struct WorkerFiles {
  LogPaths paths;
  std::string attempt;  // the folder that the worker's folder is in
  UniqueFd out;         // none unless asked for
  UniqueFd err;
};

// Make a log file that was not there, closed on exec.
Result<UniqueFd> create_log_file(const std::string& path);

// Remove folders that hold nothing but such folders; true if `folder` is gone.
bool remove_empty_folders(const std::string& folder);

class LogTree {
 public:
  // Make the job's folder in spec.log_dir. Empty: in a fresh folder in $TMPDIR (or /tmp). "/dev/null": no files at all.
  // Errors: the base is no folder, cannot be made or cannot be written.
  static Result<LogTree> create(const JobSpec& spec);

  // Make the worker's folder and open the log files of `streams`, closed on exec. Errors: the disk or the limit of open
  // files.
  Result<WorkerFiles> open_worker(int restart_count, int local_rank, Streams streams);

  // The job's folder; empty if there are no files at all.
  const std::string& path() const { return path_; }

  // The folder in $TMPDIR that remove_if_empty() looks at; empty if the user named one.
  const std::string& temporary_base() const { return temporary_base_; }

  // At the end of the job: remove a tree in $TMPDIR that holds folders only. One the user named always stays.
  void remove_if_empty() const;

 private:
  // Where the last worker's folder is: the search for a free one begins there, however many rounds there were.
  struct Last {
    int restart_count = 0;
    int attempt = 1;
  };

  std::string path_;
  Last last_;
  std::string temporary_base_;  // the fresh folder in $TMPDIR; empty if the user named the base
};

}  // namespace dtrain::launcher
