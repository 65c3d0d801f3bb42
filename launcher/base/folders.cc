#include "launcher/base/folders.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

namespace dtrain::launcher {

namespace fs = std::filesystem;

UniqueFd open_folder(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// One folder is open at a time: descriptors may be what has run out.
bool remove_empty_folders(const std::string& folder) {
  std::vector<std::string> inside;
  bool empty = true;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (std::error_code ignored; it->symlink_status(ignored).type() == fs::file_type::directory)
      inside.push_back(it->path().string());
    else
      empty = false;
  }
  for (const std::string& path : inside) empty = remove_empty_folders(path) && empty;
  return empty && ::rmdir(folder.c_str()) == 0;
}

UniqueFd hold_folder(const std::string& path) {
  UniqueFd folder = open_folder(path);
  struct stat facts {};
  // Where locks do not work take_left_folder() takes nothing.
  if (folder && ::flock(folder.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) return {};
  if (!folder || ::fstat(folder.get(), &facts) != 0) return {};
  if (facts.st_nlink > 0) return folder;
  errno = ENOENT;
  return {};
}

UniqueFd make_held_folder(std::string& path, mode_t mode) {
  constexpr int kAttempts = 200;  // another job may come upon each of them as soon as it is there
  const std::string first = path;
  int error = 0;
  for (int attempt = 1; attempt <= kAttempts; ++attempt) {
    if (::mkdir(path.c_str(), mode) == 0) {
      if (UniqueFd held = hold_folder(path)) return held;
      error = errno;
      if (error != EWOULDBLOCK && error != ENOENT) ::rmdir(path.c_str());  // no other job is there to do so
    } else if ((error = errno) != EEXIST) {
      return {};
    }
    path = first + "." + std::to_string(attempt);
  }
  errno = error;
  return {};
}

UniqueFd take_left_folder(const std::string& path) {
  UniqueFd folder = open_folder(path);
  return folder && ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0 ? std::move(folder) : UniqueFd();
}

}  // namespace dtrain::launcher
