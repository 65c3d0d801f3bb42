// Tested by test/process/data/object_cache_test.py.
#include "data/commands/object_command.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/cache/cache_error.h"
#include "data/cache/gc_plan.h"
#include "data/cache/lease_file.h"
#include "data/commands/cache_text.h"
#include "data/commands/request.h"
#include "data/objects/object_cache.h"

namespace dtrain::data {
namespace {

using Builds = std::vector<ObjectBuild>;

// A builder changes its claim every few seconds. Clocks may differ by minutes.
constexpr std::chrono::minutes kSurelyDeadInStore{30};

int list_builds(const Builds& builds, const nlohmann::json& request) {
  std::vector<EntryLine> lines;
  for (const ObjectBuild& each : builds) {
    if (!each.has_meta) continue;
    EntryLine line{each.key, each.meta.value_or(CacheMeta{}), each.damage, {}, each.unused, false};
    line.age = age_of_entry(line.meta.made);
    lines.push_back(std::move(line));
  }
  std::reverse(lines.begin(), lines.end());  // the newest first
  const auto text = request.value("json", false) ? entries_json : entries_text;
  return print_text(text(lines));
}

std::vector<std::string> keys_of(const Builds& builds) {
  std::vector<std::string> keys;
  for (const ObjectBuild& each : builds)
    if (each.has_meta && std::find(keys.begin(), keys.end(), each.key) == keys.end()) keys.push_back(each.key);
  return keys;
}

int verify_builds(ObjectStore& store, const Builds& builds, const nlohmann::json& request) {
  std::vector<std::string> keys = keys_meant(keys_of(builds), request.at("keys").get<std::vector<std::string>>());
  if (keys.empty()) keys = keys_of(builds);
  int code = 0;
  for (const ObjectBuild& each : builds) {
    if (!each.has_meta || std::find(keys.begin(), keys.end(), each.key) == keys.end()) continue;
    if (const auto damage = first_difference(store, each)) {
      say_line(fmt::format("{}: {}; remove it: dtrain cache rm {}", store.uri(each.name), *damage, each.key));
      code = kDamagedCode;
    } else {
      print_text(fmt::format("{}  fine\n", each.key));
    }
  }
  return code;
}

int collect_builds(ObjectStore& store, const Builds& builds, const nlohmann::json& request) {
  std::vector<GcEntry> entries;
  std::vector<GcLeftover> leftovers;
  for (const ObjectBuild& each : builds) {
    if (each.has_meta)
      entries.push_back({each.name, each.meta ? each.meta->bytes() : 0, each.unused, false});
    else
      leftovers.push_back({each.name, each.claim && !is_dead_here(*each.claim) && each.quiet < kSurelyDeadInStore});
  }
  const GcPlan plan = plan_gc(std::move(entries), leftovers, gc_limits(request));
  int code = 0;
  const auto remove_all = [&](const std::vector<std::string>& names) {
    std::size_t removed = 0;
    for (const ObjectBuild& each : builds) {
      if (std::find(names.begin(), names.end(), each.name) == names.end()) continue;
      const auto remove = [&] {
        if (is_committed_by_now(store, each)) return false;
        remove_build(store, each);
        return true;
      };
      if (remove_or_say(remove, code)) ++removed;
    }
    return removed;
  };
  const std::size_t left = remove_all(plan.leftovers), removed = remove_all(plan.entries);
  const int printed = print_text(gc_text(removed, left, plan.bytes_left));
  return printed != 0 ? printed : code;
}

int remove_builds(ObjectStore& store, const Builds& builds, const nlohmann::json& request) {
  const auto keys = keys_meant(keys_of(builds), request.at("keys").get<std::vector<std::string>>());
  for (const ObjectBuild& each : builds)
    if (each.has_meta && std::find(keys.begin(), keys.end(), each.key) != keys.end()) remove_build(store, each);
  return 0;
}

}  // namespace

int object_cache_command(ObjectStore& store, const nlohmann::json& request) {
  const Builds builds = builds_in(store, "");
  const std::string what = request.at("do").get<std::string>();
  if (what == "ls") return list_builds(builds, request);
  if (what == "verify") return verify_builds(store, builds, request);
  if (what == "gc") return collect_builds(store, builds, request);
  if (what == "rm") return remove_builds(store, builds, request);
  throw CacheError(kUsageCode, what + ": the cache has no such command");
}

}  // namespace dtrain::data
