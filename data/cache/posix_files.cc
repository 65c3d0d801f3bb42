// Tested by test/unit/data/entry/build_entry_test.cc.
#include "data/cache/posix_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>

#include "data/cache/cache_error.h"
#include "data/os/disk_full.h"
#include "data/os/host_name.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostSmall = std::size_t{256} << 20;
constexpr mode_t kForAll = 0666;  // the umask takes away

// Who may write in the folder may lock it. On NFS that takes a file that is open for writing.
OwnedFd make_lock(const fs::path& path) {
  constexpr mode_t kForGroup = 0664;
  OwnedFd made(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kForAll));
  struct stat folder = {};
  if (made && ::stat(path.parent_path().c_str(), &folder) == 0 && (folder.st_mode & S_IWGRP) != 0 &&
      ::fchown(made.get(), static_cast<uid_t>(-1), folder.st_gid) == 0 && ::fchmod(made.get(), kForGroup) != 0)
    throw_system(path, errno);
  return made;
}

}  // namespace

void throw_system(const fs::path& path, int error) {
  std::string cure;
  if (error == ENOSPC || error == EDQUOT) cure = "; make room, e.g. by `dtrain cache gc`, or choose another cache_dir";
  if (error == EACCES || error == EPERM || error == EROFS)
    // A job's processes on several hosts may say this.
    cure = fmt::format("; choose a cache_dir that you may write on {} (--cache-dir)", host_name("this host"));
  if (error == ELOOP) cure = "; it is a link, and the cache follows none";
  throw CacheError(kSystemCode, fmt::format("{}: {}{}", path.string(), std::strerror(error), cure));
}

std::optional<std::string> read_small_file(const fs::path& path) {
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
  if (!file) throw_system(path, errno);
  std::string text;
  std::string piece(65536, '\0');
  for (;;) {
    const ssize_t got = ::read(file.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_system(path, errno);
    if (got == 0) return text;
    text.append(piece, 0, static_cast<std::size_t>(got));
    if (text.size() > kMostSmall) throw CacheError(kSystemCode, path.string() + ": it is too long");
  }
}

void write_over(int fd, std::string_view text, const fs::path& path) {
  for (off_t at = 0; !text.empty();) {
    const ssize_t written = ::pwrite(fd, text.data(), text.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_system(path, errno);
    at += written;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::fsync(fd) != 0) throw_system(path, errno);
}

bool write_new_file(const fs::path& path, std::string_view text) {
  const OwnedFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kForAll));
  if (!file && errno == EEXIST) return false;
  if (!file) throw_system(path, errno);
  write_over(file.get(), text, path);
  return true;
}

std::optional<struct stat> facts_of(const fs::path& path) {
  struct stat facts = {};
  if (::lstat(path.c_str(), &facts) == 0) return facts;
  if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
  throw_system(path, errno);
}

void sync_path(const fs::path& path) {
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file || ::fsync(file.get()) != 0) throw_system(path, errno);
}

bool is_disk_full(const std::string& what, const fs::path& folder) {
  if (says_disk_full(what)) return true;
  constexpr std::uintmax_t kAsGoodAsNothing = 65536;
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  return !error && space.available < kAsGoodAsNothing;
}

void rename_path(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw_system(from, errno);
}

bool rename_if_there(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return true;
  if (errno != ENOENT) throw_system(from, errno);
  return false;
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw_system(path, error.value());
}

OwnedFd try_lock(const fs::path& file) {
  // Another user's may be opened for reading alone; then it can still be locked on a local disk.
  OwnedFd lock(::open(file.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!lock && errno == ENOENT) lock = make_lock(file);
  if (!lock && errno == EEXIST) lock = OwnedFd(::open(file.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!lock && errno == EACCES) lock = OwnedFd(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!lock) throw_system(file, errno);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK || errno == EINTR) return OwnedFd();
  throw_system(file, errno);
}

}  // namespace dtrain::data
