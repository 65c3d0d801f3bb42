#pragma once
// meta.json of an entry: what it was made of, and what is in it. Pure.
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/cache/cache_key.h"

namespace dtrain::data {

struct CachedFile {
  std::string path;  // within the entry
  std::uint64_t size = 0;
  std::string sha256;
};

struct CacheMeta {
  std::string key{};
  nlohmann::json recipe{};  // canonical
  std::vector<CacheInput> inputs{};
  std::vector<CachedFile> files{};              // sorted by path
  std::map<std::string, std::uint64_t> rows{};  // of each split
  std::int64_t made = 0;                        // seconds since 1970
  double seconds = 0;                           // how long it took

  std::uint64_t bytes() const;
  std::uint64_t all_rows() const;
};

std::string meta_text(const CacheMeta& meta);
// Nothing: it is no meta.json of this version, or one that names files outside the entry.
std::optional<CacheMeta> parse_meta(const std::string& text);

}  // namespace dtrain::data
