#pragma once
// The commands of a cache that is in an object store.
#include <nlohmann/json.hpp>

#include "data/objects/object_store.h"

namespace dtrain::data {

// As cache_command(), with a request that was read. Returns the exit code.
int object_cache_command(ObjectStore& store, const nlohmann::json& request);

}  // namespace dtrain::data
