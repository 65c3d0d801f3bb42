#pragma once
// What the commands of the cache print. Pure.
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/cache/meta_wire.h"

namespace dtrain::data {

struct EntryLine {
  std::string key{};
  CacheMeta meta{};
  std::string damage{};           // empty: it is whole, as far as sizes tell
  std::chrono::seconds age{};     // since it was made
  std::chrono::seconds unused{};  // since a job took it
  bool held = false;              // a job reads it
};

std::string entries_text(const std::vector<EntryLine>& entries);
std::string entries_json(const std::vector<EntryLine>& entries);

// "1.5 GB", "3 d"
std::string size_text(std::uint64_t bytes);
std::string age_text(std::chrono::seconds age);

// What gc has removed, and how many bytes stay.
std::string gc_text(std::size_t entries, std::size_t leftovers, std::uint64_t bytes_left);

// Of an entry that was found or built.
std::string got_text(const CacheMeta& meta, const std::string& folder, bool built);
std::string got_json(const CacheMeta& meta, const std::string& folder, bool built);

}  // namespace dtrain::data
