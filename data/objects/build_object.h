#pragma once
// An entry of a cache in an object store: found, or built here and uploaded by one of all jobs that want it.
#include <filesystem>
#include <functional>
#include <string>

#include "data/entry/build_entry.h"
#include "data/objects/object_store.h"

namespace dtrain::data {

struct ObjectGot {
  std::string uri{};
  CacheMeta meta{};
  bool built = false;  // by this process
};

// Does what fill_entry() does, in a child. The threads of a store's client are not there, and locks may be held for
// ever that they had: who wants to use a store must execute a program.
using FillFolder = std::function<void(const std::filesystem::path& folder)>;

// CacheError, Interrupted. Nothing of this process is left then, as far as the store can be reached. `wanted.resumes`
// does not count: another host's folder cannot be gone on with. `fill`: in place of fill_entry().
ObjectGot find_or_build(ObjectStore& store, const EntryWanted& wanted, const StopSignals& signals,
                        const FillFolder& fill = {});

}  // namespace dtrain::data
