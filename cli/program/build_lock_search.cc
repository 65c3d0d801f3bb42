#include "cli/program/build_lock_search.h"

#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace dtrain::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFolders = 1000;
constexpr std::size_t kMostLocks = 8;

struct Found {
  BuildLock lock;
  std::string folder;
  struct stat file {};
  struct stat place {};  // the folder
};

// Calls `take` with each path in a folder until it returns false. False: the folder cannot be read to its end.
bool each_in(const std::string& folder, const std::function<bool(const std::string& path)>& take) {
  std::error_code ec;
  for (fs::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec))
    if (!take(it->path().native())) return true;
  return !ec;
}

// An unlisted one may be a network's.
bool is_local(decltype(statfs::f_type) type) {
  constexpr unsigned kXfs = 0x58465342, kZfs = 0x2fc12fc1;  // not in linux/magic.h
  constexpr std::array<unsigned, 7> kLocal = {EXT4_SUPER_MAGIC, kXfs,        kZfs,       BTRFS_SUPER_MAGIC,
                                              F2FS_SUPER_MAGIC, TMPFS_MAGIC, RAMFS_MAGIC};
  return std::ranges::find(kLocal, static_cast<unsigned>(type)) != kLocal.end();
}

// Whether all processes that can reach this folder are in our /proc. The upper layer of an overlay is a container's
// own; other folders a container may share with others, which it does not see.
bool is_ours_alone(const std::string& folder) {
  constexpr ino_t kFirstPidNamespace = 0xEFFFFFFC;  // PROC_PID_INIT_INO, the machine's
  struct statfs where {};
  if (::statfs(folder.c_str(), &where) != 0) return false;
  if (static_cast<unsigned>(where.f_type) == OVERLAYFS_SUPER_MAGIC) return true;
  struct stat own {};
  return is_local(where.f_type) && ::stat("/proc/self/ns/pid", &own) == 0 && own.st_ino == kFirstPidNamespace;
}

std::chrono::seconds seconds_since(const timespec& then, std::chrono::system_clock::time_point now) {
  return std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()) - std::chrono::seconds(then.tv_sec);
}

bool is_file(const std::string& path, struct stat& facts) {
  return ::lstat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode);
}

void look_for_lock(const std::string& folder, const std::string& python, std::vector<Found>& locks) {
  Found found;
  found.lock.path = folder + "/lock";
  if (!is_file(found.lock.path, found.file) || !is_batons(found.file.st_mode)) return;
  if (::stat(folder.c_str(), &found.place) != 0) return;
  const auto now = std::chrono::system_clock::now();
  found.folder = folder;
  found.lock.python = python;
  found.lock.age = std::max(std::chrono::seconds(0), seconds_since(found.file.st_mtim, now));
  found.lock.quiet = std::min(found.lock.age, seconds_since(found.place.st_mtim, now));
  found.lock.all_seen = each_in(folder,
                                [&](const std::string& path) {
                                  struct stat entry {};
                                  if (::lstat(path.c_str(), &entry) == 0)
                                    found.lock.quiet = std::min(found.lock.quiet, seconds_since(entry.st_mtim, now));
                                  return true;
                                }) &&
                        is_ours_alone(folder);
  locks.push_back(std::move(found));
}

std::vector<Found> locks_below(const ExtensionFolders& folders) {
  std::vector<Found> locks;
  std::size_t looked = 0;
  const auto look = [&](const std::string& folder, const std::string& python) {
    if (++looked > kMostFolders || locks.size() >= kMostLocks) return false;
    look_for_lock(folder, python, locks);
    return true;
  };
  std::error_code ec;
  each_in(fs::absolute(folders.path, ec).native(), [&](const std::string& path) {
    if (!folders.by_python) return look(path, "");
    each_in(path, [&](const std::string& inner) { return look(inner, path.substr(path.rfind('/') + 1)); });
    return looked <= kMostFolders && locks.size() < kMostLocks;
  });
  return locks;
}

bool leads_to(const std::string& link, std::string_view ending, const struct stat& wanted) {
  // What a link of /proc says is read first: to follow each of them could wait for a network file system.
  std::array<char, PATH_MAX> text{};
  const ssize_t size = ::readlink(link.c_str(), text.data(), text.size());
  if (size <= 0 || !std::string_view(text.data(), static_cast<std::size_t>(size)).ends_with(ending)) return false;
  struct stat facts {};
  return ::stat(link.c_str(), &facts) == 0 && facts.st_dev == wanted.st_dev && facts.st_ino == wanted.st_ino;
}

// What is compiled may outlive the process that has the lock, and works in the folder.
void look_at_process(const std::string& process, std::vector<Found>& locks) {
  struct stat owner {};  // root's, if the process hides what it has from its user, as an ssh-agent does
  if (::stat((process + "/fd").c_str(), &owner) != 0) return;  // it has ended
  for (Found& found : locks)
    if (leads_to(process + "/cwd", found.folder.substr(found.folder.rfind('/')), found.place)) found.lock.held = true;
  const bool read = each_in(process + "/fd", [&](const std::string& link) {
    for (Found& found : locks)
      if (leads_to(link, "/lock", found.file)) found.lock.held = true;
    return true;
  });
  // A builder hides nothing, and is the file's owner's.
  if (read || ::access(process.c_str(), F_OK) != 0) return;
  for (Found& found : locks)
    if (found.file.st_uid == owner.st_uid) found.lock.all_seen = false;
}

void look_at_processes(std::vector<Found>& locks) {
  const bool read = each_in("/proc", [&](const std::string& path) {
    const char first = path[sizeof "/proc/" - 1];
    if (first >= '0' && first <= '9') look_at_process(path, locks);
    return true;
  });
  for (Found& found : locks) found.lock.all_seen = found.lock.all_seen && read;
}

// The build may have ended while the processes were looked at.
bool is_still_there(const Found& found) {
  struct stat now {};
  return is_file(found.lock.path, now) && now.st_dev == found.file.st_dev && now.st_ino == found.file.st_ino;
}

}  // namespace

std::vector<BuildLock> left_build_locks(const Host& host) {
  const auto folders = extension_folders(host.env);
  if (!folders) return {};
  std::vector<Found> locks = locks_below(*folders);
  if (locks.empty()) return {};
  look_at_processes(locks);
  std::erase_if(locks, [](const Found& found) { return !is_left(found.lock) || !is_still_there(found); });
  if (locks.empty()) return {};
  const PythonFacts python = python_facts(host);
  const auto source =
      host.read_text(python.torch_file.substr(0, python.torch_file.rfind('/')) + "/utils/cpp_extension.py");
  std::vector<BuildLock> left;
  for (const Found& found : locks)
    if (is_waited_for(found.lock, python, source ? *source : "")) left.push_back(found.lock);
  return left;
}

}  // namespace dtrain::cli
