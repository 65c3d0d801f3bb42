#pragma once
// LogTree: the folder of one job's logs and error files.
//
//   <base>/<run_id>_<random8>/attempt_<restart_count>/<local_rank>/{stdout.log,stderr.log,error.json}
//
// Folders are 0700 and files 0600. Nothing is ever overwritten: a worker that finds its folder taken (a round with the
// same restart count) gets attempt_<restart_count>_2, _3, ...
#include <string>
#include <utility>
#include <vector>

#include "launcher/job/job_spec.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

// Where one worker's files are; empty where there is none.
struct LogPaths {
  std::string out;
  std::string err;
  std::string error_file;  // may be written by the worker
  std::string blame;       // the same; see blame_file.h
  std::string progress{};  // the same, of rank 0 where somebody asks; see progress_file.h
};

struct WorkerFiles {
  LogPaths paths;
  std::string attempt;  // the folder that the worker's folder is in
  UniqueFd out;         // none unless asked for
  UniqueFd err;
};

// Make a log file that was not there, closed on exec.
Result<UniqueFd> create_log_file(const std::string& path);

class LogTree {
 public:
  // Make the job's folder in spec.log_dir. Empty: in a fresh folder in the first of temporary_folders() that takes it.
  // "/dev/null": no files at all. Where nobody asked for files and there is no place for them, there are none: a note
  // says so. Errors: spec.log_dir cannot be had (usage); a stream is to go to files and there is no place (system).
  static Result<LogTree> create(const JobSpec& spec);

  // Make the worker's folder and open the log files of `streams`, closed on exec. Errors: the disk or the limit of open
  // files. Without `streams` there are no errors: a worker that can have no folder has no error file, and a note says
  // so.
  Result<WorkerFiles> open_worker(int restart_count, int local_rank, Streams streams);

  // What the user has not been told yet about places that could not be had. One line each.
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

  // The job's folder; empty if there are no files at all.
  const std::string& path() const { return path_; }

  // The temporary folder that remove_if_empty() looks at; empty if the user named one.
  const std::string& temporary_base() const { return temporary_base_; }

  // At the end of the job: remove a temporary tree that holds folders only. One the user named always stays.
  void remove_if_empty();

 private:
  // Where the last worker's folder is: the search for a free one begins there, however many rounds there were.
  struct Last {
    int restart_count = 0;
    int attempt = 1;
  };

  std::string make_temporary(const std::string& run_id);
  Result<WorkerFiles> make_worker(int restart_count, int local_rank, Streams streams);

  std::string path_;
  Last last_;
  std::string temporary_base_;  // the fresh folder for this job; empty if the user named the base
  UniqueFd held_;               // that folder
  std::vector<std::string> notes_;
  bool said_no_error_file_ = false;
};

}  // namespace dtrain::launcher
