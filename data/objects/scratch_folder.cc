// Tested by test/unit/data/objects/build_object_test.cc.
#include "data/objects/scratch_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

fs::path scratch_base() {
  const char* named = std::getenv("TMPDIR");
  return fs::absolute(named != nullptr && *named != 0 ? named : "/tmp");
}

OwnedFd open_scratch(const fs::path& folder) {
  return OwnedFd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// Those of this user that nobody holds.
void sweep_scratch(const fs::path& base, const std::string& prefix) {
  std::error_code error;
  for (fs::directory_iterator at(base, error), end; !error && at != end; at.increment(error)) {
    if (!at->path().filename().string().starts_with(prefix)) continue;
    const OwnedFd folder = open_scratch(at->path());
    struct stat facts = {};
    if (!folder || ::fstat(folder.get(), &facts) != 0 || facts.st_uid != ::geteuid()) continue;
    std::error_code ignored;
    if (::flock(folder.get(), LOCK_EX | LOCK_NB) == 0) fs::remove_all(at->path(), ignored);
  }
}

}  // namespace

ScratchFolder::ScratchFolder() {
  const fs::path base = scratch_base();
  const std::string prefix = fmt::format("dtrain-build-{}-", ::geteuid());
  sweep_scratch(base, prefix);
  constexpr int kAttempts = 3;  // somebody may sweep it before it is locked
  for (int i = 0; i < kAttempts && !lock_; ++i) {
    std::string made = (base / (prefix + "XXXXXX")).string();
    if (::mkdtemp(made.data()) == nullptr) throw_system(base, errno);
    OwnedFd lock = open_scratch(made);
    struct stat facts = {};
    if (!lock || ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0 || ::fstat(lock.get(), &facts) != 0) continue;
    if (facts.st_nlink == 0) continue;
    path_ = made;
    lock_ = std::move(lock);
  }
  if (!lock_) throw_system(base, EBUSY);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;  // what stays, the next one sweeps
  fs::remove_all(path_, ignored);
}

}  // namespace dtrain::data
