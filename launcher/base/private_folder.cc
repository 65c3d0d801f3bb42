#include "launcher/base/private_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/crc.hpp>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "launcher/base/folders.h"

namespace dtrain::launcher {

namespace fs = std::filesystem;

namespace {

bool is_ours(int folder) {
  struct stat facts {};
  return ::fstat(folder, &facts) == 0 && facts.st_uid == ::geteuid();
}

std::uint32_t number_of_host(const std::string& host) {
  boost::crc_32_type crc;
  crc.process_bytes(host.data(), host.size());
  return crc.checksum();
}

void remove_all(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

// Of this user and this host, and nobody's who lives.
void sweep_private(const std::string& base, const std::string& prefix) {
  std::error_code error;
  for (fs::directory_iterator entry(base, error), end; !error && entry != end; entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(prefix)) continue;
    const UniqueFd folder = open_folder(entry->path().string());
    if (folder && is_ours(folder.get()) && ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0)
      remove_all(entry->path().string());
  }
}

struct LockedFolder {
  std::string path;
  UniqueFd lock;
};

Result<LockedFolder> make_in(const std::string& base, const std::string& prefix) {
  constexpr int kAttempts = 3;  // somebody may sweep_private it before it is locked
  sweep_private(base, prefix);
  for (int attempt = 1;; ++attempt) {
    std::string path = base + "/" + prefix + "XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) return system_error("cannot make a folder in " + base, errno);
    UniqueFd lock = open_folder(path);
    struct stat facts {};
    if (lock && ::flock(lock.get(), LOCK_SH) == 0 && ::fstat(lock.get(), &facts) == 0 && facts.st_nlink > 0)
      return LockedFolder{path, std::move(lock)};
    const int error = errno;
    ::rmdir(path.c_str());
    if (attempt == kAttempts) return system_error("cannot use the folder " + path, error);
  }
}

}  // namespace

std::vector<std::string> temporary_folders() {
  std::error_code no_folder;  // the working folder may be gone
  const fs::path here = fs::current_path(no_folder);
  const char* tmp = std::getenv("TMPDIR");
  std::vector<std::string> places;
  for (const fs::path& place : {fs::path(tmp != nullptr ? tmp : ""), fs::path("/tmp"), fs::path("/var/tmp"), here}) {
    if (place.empty() || (place.is_relative() && here.empty())) continue;
    std::string path = (here / place).string();
    if (std::find(places.begin(), places.end(), path) == places.end()) places.push_back(std::move(path));
  }
  return places;
}

Result<PrivateFolder> PrivateFolder::make(const std::string& kind, const std::string& host) {
  const std::string prefix = fmt::format("dtrain-{}-{}-{:08x}-", kind, ::geteuid(), number_of_host(host));
  std::optional<Error> first;
  for (const std::string& base : temporary_folders()) {
    auto made = make_in(base, prefix);
    if (made) return PrivateFolder(std::move(made->path), std::move(made->lock));
    if (!first) first = made.error();
  }
  return *first;
}

void PrivateFolder::remove() const { remove_all(path_); }

}  // namespace dtrain::launcher
