#pragma once
// A folder for one process and those it forks, 0700, in the first of temporary_folders() that takes it. It is locked as
// long as one of them lives, so the next one on this host can tell, and removes, what was left by processes that were
// all killed. Such locks may be unknown to other hosts that share the file system, so each host removes its own folders
// only.
#include <string>
#include <vector>

#include "launcher/base/host_name.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

// Where temporary files may go, in the order to try: $TMPDIR, /tmp, /var/tmp, the working folder. Absolute, each once.
std::vector<std::string> temporary_folders();

class PrivateFolder {
 public:
  // `kind` is a part of its name, and so is a number made of `host`. Error: why the first place does not take it.
  static Result<PrivateFolder> make(const std::string& kind, const std::string& host = kernel_hostname());
  const std::string& path() const { return path_; }
  // With all that is in it. It may be gone already.
  void remove() const;

 private:
  PrivateFolder(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  UniqueFd lock_;  // of the folder itself
};

}  // namespace dtrain::launcher
