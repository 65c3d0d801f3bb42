// Tested by test/unit/data/entry/build_entry_test.cc.
#include "data/cache/cache_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "data/cache/cache_error.h"
#include "data/cache/cache_inputs.h"
#include "data/cache/lease_file.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kLockPatience{5};
constexpr std::chrono::milliseconds kLockPause{20};
// Who removes something may need so long. Clocks of hosts may differ by minutes.
constexpr std::chrono::minutes kSurelyDead{30};

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  if (error) throw_system(folder, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

// KEY.tmp.JOB, KEY.rm.JOB, KEY.lease or a draft of that. Empty: it is none.
std::string key_of_leftover(const std::string& name) {
  const std::size_t dot = name.find('.');
  if (dot == std::string::npos || !is_cache_key(name.substr(0, dot))) return "";
  const std::string rest = name.substr(dot) + '.';
  const bool is_one = rest.starts_with(".lease.") || rest.starts_with(".tmp.") || rest.starts_with(".rm.");
  return is_one ? name.substr(0, dot) : "";
}

std::chrono::seconds age_since(const timespec& then) {
  return std::chrono::seconds(std::max<std::int64_t>(0, std::time(nullptr) - then.tv_sec));
}

std::chrono::seconds age_of(const fs::path& path) {
  const auto facts = facts_of(path);
  return facts ? age_since(facts->st_mtim) : std::chrono::seconds(0);
}

// A rename changes this time.
std::chrono::seconds age_of_name(const fs::path& path) {
  const auto facts = facts_of(path);
  return facts ? age_since(facts->st_ctim) : std::chrono::seconds(0);
}

// Exclusive, so that no reader has it.
OwnedFd hold_alone(const fs::path& used) {
  OwnedFd file(::open(used.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!file && (errno == EACCES || errno == EROFS))
    file = OwnedFd(::open(used.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return file;
  return OwnedFd();
}

std::string damage_of(const fs::path& entry, const std::string& key, const std::optional<CacheMeta>& meta) {
  if (!meta) return "meta.json is missing or cannot be read";
  if (meta->key != key) return "meta.json is that of another entry";
  for (const CachedFile& file : meta->files) {
    const auto facts = facts_of(entry / file.path);
    if (!facts || !S_ISREG(facts->st_mode)) return file.path + " is missing";
    if (static_cast<std::uint64_t>(facts->st_size) != file.size)
      return fmt::format("{} has {} bytes, and should have {}", file.path, facts->st_size, file.size);
  }
  return "";
}

}  // namespace

CacheFolder::CacheFolder(const fs::path& path, MakeFolder make) : path_(fs::absolute(path).lexically_normal()) {
  std::error_code error;
  if (make == MakeFolder::yes) fs::create_directories(path_, error);
  struct stat facts = {};
  if (::stat(path_.c_str(), &facts) != 0) {
    if (make == MakeFolder::no && errno == ENOENT)
      throw CacheError(kUsageCode, fmt::format("{}: there is no cache here", path_.string()));
    throw_system(path_, error ? error.value() : errno);
  }
  if (!S_ISDIR(facts.st_mode)) throw CacheError(kUsageCode, fmt::format("{}: it is no folder", path_.string()));
  if ((facts.st_mode & S_IWOTH) != 0)
    throw CacheError(kUsageCode, fmt::format("{}: everybody may write here, so anybody could change the data; choose "
                                             "a folder of your own or of your group",
                                             path_.string()));
}

fs::path CacheFolder::building(const std::string& key, const std::string& job) const {
  return path_ / (key + ".tmp." + job);
}

fs::path CacheFolder::removing(const std::string& key, const std::string& job) const {
  return path_ / (key + ".rm." + job);
}

std::vector<fs::path> CacheFolder::leftovers_of(const std::string& key) const {
  std::vector<fs::path> found;
  for (const std::string& name : names_in(path_))
    if (name.starts_with(key + ".tmp.")) found.push_back(path_ / name);
  std::stable_sort(found.begin(), found.end(),
                   [](const fs::path& a, const fs::path& b) { return age_of(a) > age_of(b); });
  return found;
}

OwnedFd CacheFolder::await_lock() const {
  return await_lock(kLockPatience,
                    [](std::chrono::milliseconds most) { ::poll(nullptr, 0, static_cast<int>(most.count())); });
}

OwnedFd CacheFolder::await_lock(std::chrono::seconds most, const Pause& pause) const {
  for (std::chrono::milliseconds waited{}; waited < most; waited += kLockPause) {
    if (OwnedFd held = lock()) return held;
    pause(kLockPause);
  }
  throw CacheError(kSystemCode, fmt::format("{}/.lock: another process has held it for {} s; end that process first",
                                            path_.string(), most.count()));
}

CacheFolder::Found CacheFolder::find(const std::string& key) const {
  Found found;
  const auto facts = facts_of(entry(key));
  if (!facts) return found;
  found.is_there = true;
  if (!S_ISDIR(facts->st_mode)) throw CacheError(kSystemCode, entry(key).string() + ": it is no folder; remove it");
  if (::access(entry(key).c_str(), R_OK | X_OK) != 0 && errno == EACCES)
    throw CacheError(kSystemCode,
                     fmt::format("{}: Permission denied: the umask of its builder kept it from others; its owner can "
                                 "change that (chmod -R go+rX), or choose another cache_dir",
                                 entry(key).string()));
  if (const auto text = read_small_file(entry(key) / "meta.json")) found.meta = parse_meta(*text);
  found.damage = damage_of(entry(key), key, found.meta);
  return found;
}

CacheFolder::Found CacheFolder::look(const std::string& key) const {
  try {
    return find(key);
  } catch (const CacheError& error) {
    return {std::nullopt, error.what(), true};
  }
}

void CacheFolder::touch(const std::string& key) const {
  // In a cache that others keep this may not be allowed; nothing but its age depends on it.
  if (::utimensat(AT_FDCWD, (entry(key) / "used").c_str(), nullptr, AT_SYMLINK_NOFOLLOW) != 0) errno = 0;
}

std::vector<std::string> CacheFolder::keys() const {
  std::vector<std::string> names = names_in(path_);
  std::erase_if(names, [](const std::string& name) { return !is_cache_key(name); });
  return names;
}

std::vector<CacheFolder::Listed> CacheFolder::entries() const {
  std::vector<Listed> out;
  for (const std::string& key : keys()) {
    const fs::path used = entry(key) / "used";
    Listed& one = out.emplace_back(Listed{key, look(key), {}, false});
    try {
      one.unused = age_of(used);
      one.held = facts_of(used) && !hold_alone(used);
    } catch (const CacheError& error) {  // another user's own entry
      if (one.found.damage.empty()) one.found.damage = error.what();
    }
  }
  return out;
}

std::vector<GcLeftover> CacheFolder::leftovers() const {
  std::vector<GcLeftover> out;
  for (const std::string& name : names_in(path_)) {
    const std::string key = key_of_leftover(name);
    if (key.empty()) continue;
    const bool is_of_builder = name.compare(key.size(), 5, ".tmp.") == 0 || name == key + ".lease";
    const bool is_being_removed = name.compare(key.size(), 4, ".rm.") == 0 && age_of_name(path_ / name) < kSurelyDead;
    // A builder changes its lease every few seconds.
    const auto builder = read_lease(lease(key));
    const bool builds = builder && !is_dead_here(*builder) && age_of(lease(key)) < kSurelyDead;
    out.push_back({name, is_being_removed || (is_of_builder && builds)});
  }
  return out;
}

CacheFolder::Removed CacheFolder::remove(const std::string& key, const std::string& job,
                                         std::chrono::seconds unused) const {
  if (!facts_of(entry(key))) return Removed::no;
  {
    const OwnedFd lock = await_lock();
    const fs::path used = entry(key) / "used";
    const OwnedFd alone = hold_alone(used);
    // A job may have taken it since the list was made.
    if (facts_of(used) && (!alone || age_of(used) < unused)) return Removed::held;
    if (!rename_if_there(entry(key), removing(key, job))) return Removed::no;
  }
  remove_tree(removing(key, job));
  return Removed::yes;
}

std::optional<std::string> first_difference(const fs::path& entry, const CacheMeta& meta) {
  if (const std::string damage = damage_of(entry, meta.key, meta); !damage.empty()) return damage;
  for (const CachedFile& file : meta.files) {
    try {
      if (digest_file(entry / file.path).sha256 != file.sha256)
        return fmt::format("{} is not what was written: its SHA-256 differs", file.path);
    } catch (const CacheError& error) {  // e.g. of a disk that fails
      return fmt::format("{} cannot be read ({})", file.path, error.what());
    }
  }
  return std::nullopt;
}

}  // namespace dtrain::data
