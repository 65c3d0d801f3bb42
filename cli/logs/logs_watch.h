#pragma once
// Waits for changes below a job's log folder with inotify: no polling, unless the kernel refuses.
#include <chrono>
#include <optional>
#include <string>

#include "rendezvous/base/unique_fd.h"

namespace dtrain::cli {

class LogsWatch {
 public:
  // Watch the job's folder for new rounds.
  explicit LogsWatch(const std::string& job);

  // Watch a round's folder for new workers, and their folders for new bytes. Fine to call again.
  void add_tree(const std::string& attempt);

  // One line, once, if a limit of the kernel keeps it from being told of everything. From then on wait() also returns
  // `kPeriod` after the last time, so that whoever looks at all files again then misses nothing.
  std::string trouble();
  static constexpr std::chrono::milliseconds kPeriod{1000};

  enum class Woke {
    look,         // something has changed, or may have
    quiet,        // `limit` has passed without
    reader_gone,  // nobody reads standard output any more
  };
  // Wait for a change, at most `limit` if there is one.
  Woke wait(std::optional<std::chrono::milliseconds> limit);

 private:
  void add(const std::string& folder);
  void refused(int error, const char* limit);

  UniqueFd fd_;
  bool rescan_ = false;
  std::string trouble_;
};

}  // namespace dtrain::cli
