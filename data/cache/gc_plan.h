#pragma once
// What `dtrain cache gc` removes. Pure.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::data {

struct GcEntry {
  std::string name;  // its key
  std::uint64_t bytes = 0;
  std::chrono::seconds unused{};  // since the last job took it
  bool held = false;              // a job reads it
};

// What a build or a removal has left: NAME.tmp.JOB, NAME.rm.JOB, NAME.lease.
struct GcLeftover {
  std::string name;
  bool in_use = false;  // its builder lives
};

struct GcLimits {
  std::optional<std::chrono::seconds> ttl{};
  std::optional<std::uint64_t> most_bytes{};
};

// Who has just found an entry may not hold it yet.
inline constexpr std::chrono::seconds kJustTaken{60};

struct GcPlan {
  std::vector<std::string> leftovers{};
  std::vector<std::string> entries{};
  std::uint64_t bytes_left = 0;  // of entries that stay
};

// Entries longer unused than `ttl`; then, as long as the others have more than `most_bytes`, the one that is longest
// unused. Never what is held or in use.
GcPlan plan_gc(std::vector<GcEntry> entries, const std::vector<GcLeftover>& leftovers, const GcLimits& limits);

}  // namespace dtrain::data
