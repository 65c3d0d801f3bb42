#pragma once
// Waits for changes below a job's log folder with inotify: no polling.
#include <string>

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::cli {

class LogsWatch {
 public:
  // Watch the job's folder for new rounds. Error: the limit of inotify instances.
  static Result<LogsWatch> start(const std::string& job);

  // Watch a round's folder for new workers, and their folders for new bytes. Fine to call again.
  void add_tree(const std::string& attempt);

  // Wait for a change, however long. False: the reader of standard output is gone.
  bool wait();

 private:
  explicit LogsWatch(UniqueFd fd) : fd_(std::move(fd)) {}
  void add(const std::string& folder);

  UniqueFd fd_;
};

}  // namespace dtrain::cli
