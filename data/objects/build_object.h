#pragma once
// An entry of a cache in an object store: found, or built here and uploaded by one of all jobs that want it.
#include <string>

#include "data/entry/build_entry.h"
#include "data/objects/object_store.h"

namespace dtrain::data {

struct ObjectGot {
  std::string uri{};
  CacheMeta meta{};
  bool built = false;  // by this process
};

// CacheError, Interrupted. Nothing of this process is left then, as far as the store can be reached. `wanted.resumes`
// does not count: another host's folder cannot be gone on with.
ObjectGot find_or_build(ObjectStore& store, const EntryWanted& wanted, const StopSignals& signals);

}  // namespace dtrain::data
