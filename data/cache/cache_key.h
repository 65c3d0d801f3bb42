#pragma once
// Which entry of the cache a recipe and its inputs are: the same key, the same bytes. Pure.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace dtrain::data {

// Of the cache, not of dtrain: a new dtrain finds what an old one has built, unless the same recipe gives other bytes.
inline constexpr int kCacheFormat = 1;

struct CacheInput {
  std::string path;  // absolute
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::string sha256{};  // empty: size and time stand for the content
};

// Without what says where the inputs lie and how the work is done: threads, partitions, memory. Sorted; a null says
// nothing.
nlohmann::json canonical_recipe(const nlohmann::json& recipe);

// 64 hexadecimal digits. `inputs` in the order in which they are read. Where a file has a sha256, neither its path nor
// its time counts: a copy elsewhere is the same.
std::string cache_key(const nlohmann::json& recipe, const std::vector<CacheInput>& inputs);

bool is_cache_key(const std::string& name);

}  // namespace dtrain::data
