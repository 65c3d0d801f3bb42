#include "launcher/private_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/crc.hpp>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>

namespace dtrain::launcher {

namespace fs = std::filesystem;

namespace {

UniqueFd open_folder(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool is_ours(int folder) {
  struct stat facts {};
  return ::fstat(folder, &facts) == 0 && facts.st_uid == ::geteuid();
}

std::uint32_t number_of(const std::string& host) {
  boost::crc_32_type crc;
  crc.process_bytes(host.data(), host.size());
  return crc.checksum();
}

void remove_all(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

// Of this user and this host, and nobody's who lives.
void sweep(const std::string& base, const std::string& prefix) {
  std::error_code error;
  for (fs::directory_iterator entry(base, error), end; !error && entry != end; entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(prefix)) continue;
    const UniqueFd folder = open_folder(entry->path().string());
    if (folder && is_ours(folder.get()) && ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0)
      remove_all(entry->path().string());
  }
}

}  // namespace

Result<PrivateFolder> PrivateFolder::make(const std::string& kind, const std::string& host) {
  constexpr int kAttempts = 3;  // somebody may sweep it before it is locked
  const char* tmp = std::getenv("TMPDIR");
  const std::string base = tmp != nullptr && tmp[0] == '/' ? tmp : "/tmp";
  const std::string prefix = fmt::format("dtrain-{}-{}-{:08x}-", kind, ::geteuid(), number_of(host));
  sweep(base, prefix);
  for (int attempt = 1;; ++attempt) {
    std::string path = base + "/" + prefix + "XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) return system_error("cannot make a folder in " + base, errno);
    UniqueFd lock = open_folder(path);
    struct stat facts {};
    if (lock && ::flock(lock.get(), LOCK_SH) == 0 && ::fstat(lock.get(), &facts) == 0 && facts.st_nlink > 0)
      return PrivateFolder(path, std::move(lock));
    const int error = errno;
    ::rmdir(path.c_str());
    if (attempt == kAttempts) return system_error("cannot use the folder " + path, error);
  }
}

void PrivateFolder::remove() const { remove_all(path_); }

}  // namespace dtrain::launcher
