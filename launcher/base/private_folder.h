#pragma once
// A folder in $TMPDIR (or /tmp) for one process and those it forks, 0700. It is locked as long as one of them lives, so
// the next one on this host can tell, and removes, what was left by processes that were all killed. Such locks may be
// unknown to other hosts that share the file system, so each host removes its own folders only.
#include <string>

#include "launcher/host_name.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

class PrivateFolder {
 public:
  // `kind` is a part of its name, and so is a number made of `host`.
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
