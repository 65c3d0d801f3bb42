#pragma once
// A folder of this disk for what is built before it goes to an object store: 0700, in TMPDIR or /tmp.
#include <filesystem>

#include "data/cache/posix_files.h"

namespace dtrain::data {

// It is locked as long as this process lives, and goes with it. What killed processes of this user have left there goes
// when the next one is made.
class ScratchFolder {
 public:
  // CacheError: there is no place for it.
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  OwnedFd lock_;
};

}  // namespace dtrain::data
