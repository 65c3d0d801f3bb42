#pragma once
// The store of a cache by Arrow's file systems. dtrain-data alone has it: the rest of the cache needs no Arrow.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "data/objects/object_store.h"

namespace dtrain::data {

// `uri`: "s3://BUCKET/PREFIX". `credentials`: {"AWS_ACCESS_KEY_ID": ...}, which go before those of this process
// (data/files/store.h). CacheError: there is no such store. It may start threads: see open_store().
std::unique_ptr<ObjectStore> open_objects(const std::string& uri, const nlohmann::json& credentials);

}  // namespace dtrain::data
