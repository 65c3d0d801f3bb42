#pragma once
// CACHE_DIR:
//   KEY/meta.json      what the entry is made of, and size and SHA-256 of each of its files
//   KEY/used           changed when a job takes the entry; a job that reads it holds a shared flock on it
//   KEY/train/...      the data
//   KEY.lease          who builds the entry (lease_plan.h)
//   KEY.tmp.JOB/       what is being built, or what a killed build has left
//   KEY.rm.JOB/        what is being removed
//   .lock              held for the moment in which a lease or an entry comes or goes
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/cache/gc_plan.h"
#include "data/cache/lease_plan.h"
#include "data/cache/meta_wire.h"
#include "data/cache/posix_files.h"

namespace dtrain::data {

enum class MakeFolder { no, yes };

class CacheFolder {
 public:
  // CacheError: it is not there, it is no folder, or everybody may write in it.
  CacheFolder(const std::filesystem::path& path, MakeFolder make);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path entry(const std::string& key) const { return path_ / key; }
  std::filesystem::path lease(const std::string& key) const { return path_ / (key + ".lease"); }
  std::filesystem::path building(const std::string& key, const std::string& job) const;
  std::filesystem::path removing(const std::string& key, const std::string& job) const;
  // KEY.tmp.*, oldest first.
  std::vector<std::filesystem::path> leftovers_of(const std::string& key) const;

  // Nothing: another process has it for the moment.
  OwnedFd lock() const { return try_lock(path_ / ".lock"); }
  // CacheError: another process has it for all that time. `pause` waits for so long, and may throw.
  using Pause = std::function<void(std::chrono::milliseconds)>;
  OwnedFd await_lock() const;
  OwnedFd await_lock(std::chrono::seconds most, const Pause& pause) const;

  // What lies under this key, whole or not.
  struct Found {
    std::optional<CacheMeta> meta{};
    std::string damage{};  // empty: each file has the size that it should
    bool is_there = false;
  };
  Found find(const std::string& key) const;
  // The same; what cannot be read is damaged.
  Found look(const std::string& key) const;

  // It has been used now.
  void touch(const std::string& key) const;

  std::vector<std::string> keys() const;
  struct Listed {
    std::string key;
    Found found;
    std::chrono::seconds unused{};
    bool held = false;
  };
  std::vector<Listed> entries() const;
  // Call with the lock: what a builder holds only for a moment has been left then.
  std::vector<GcLeftover> leftovers() const;

  enum class Removed { yes, held, no };
  // Held: a job reads it, or has taken it within `unused`.
  Removed remove(const std::string& key, const std::string& job, std::chrono::seconds unused = {}) const;

 private:
  std::filesystem::path path_;
};

// The first file that is not what meta.json says. Reads all.
std::optional<std::string> first_difference(const std::filesystem::path& entry, const CacheMeta& meta);

}  // namespace dtrain::data
