#pragma once
// An entry of the cache: found, or built by one of all jobs that want it.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "data/cache/cache_folder.h"
#include "data/entry/stop_signals.h"

namespace dtrain::data {

// Rows of each split, whose files lie in the folder of its name.
using RowsOfSplits = std::map<std::string, std::uint64_t>;

struct EntryWanted {
  std::string key{};
  nlohmann::json recipe{};
  std::vector<CacheInput> inputs{};
  // Fills the folder, in a process of its own. Throws what is one line for the user.
  std::function<RowsOfSplits(const std::filesystem::path& folder)> build{};
  // Called before `build`, in a process of its own, with the folder of the build, which is empty. Throws CacheError:
  // there is to be no build. What a killed build has left stays then.
  std::function<void(const std::filesystem::path& folder)> before_build{};
  // Whether it goes on with what a killed build of the same key has left in the folder. Else the folder is empty.
  bool resumes = false;
  LeasePatience patience{};
  std::function<void(const std::string& line)> say{};
};

struct EntryGot {
  std::filesystem::path folder;
  CacheMeta meta;
  bool built = false;  // by this process
};

// Into an empty folder, with meta.json. Call in a process of its own: it throws what `build` throws. All of it is on
// the disk when this returns.
void fill_entry(const std::filesystem::path& folder, const EntryWanted& wanted);

// CacheError, Interrupted. Nothing of this process is left then.
EntryGot find_or_build(const CacheFolder& cache, const EntryWanted& wanted, const StopSignals& signals);

}  // namespace dtrain::data
