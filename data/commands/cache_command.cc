// Tested by test/process/data/cache_test.py.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "data/cache/cache_error.h"
#include "data/cache/lease_file.h"
#include "data/commands/cache_text.h"
#include "data/commands/data_command.h"
#include "data/commands/object_command.h"
#include "data/commands/request.h"
#include "data/entry/stop_signals.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;
using Keys = std::vector<std::string>;

std::vector<EntryLine> lines_of(const CacheFolder& cache) {
  std::vector<EntryLine> lines;
  for (const CacheFolder::Listed& each : cache.entries()) {
    EntryLine line{each.key, each.found.meta.value_or(CacheMeta{}), each.found.damage, {}, each.unused, each.held};
    line.age = age_of_entry(line.meta.made);
    lines.push_back(std::move(line));
  }
  std::sort(lines.begin(), lines.end(), [](const EntryLine& a, const EntryLine& b) { return a.age < b.age; });
  return lines;
}

int list_entries(const CacheFolder& cache, const nlohmann::json& request) {
  const auto text = request.value("json", false) ? entries_json : entries_text;
  return print_text(text(lines_of(cache)));
}

int verify_entries(const CacheFolder& cache, const nlohmann::json& request) {
  Keys keys = keys_meant(cache.keys(), request.at("keys").get<Keys>());
  if (keys.empty()) keys = cache.keys();
  int code = 0;
  for (const std::string& key : keys) {
    const CacheFolder::Found found = cache.look(key);
    std::string damage = found.damage;
    if (damage.empty() && found.meta) damage = first_difference(cache.entry(key), *found.meta).value_or("");
    if (damage.empty()) {
      print_text(fmt::format("{}  fine\n", key));
    } else {
      say_line(fmt::format("{}: {}; remove it: dtrain cache rm {}", cache.entry(key).string(), damage, key));
      code = kDamagedCode;
    }
  }
  return code;
}

std::vector<GcEntry> gc_entries(const CacheFolder& cache) {
  std::vector<GcEntry> entries;
  for (const CacheFolder::Listed& each : cache.entries())
    entries.push_back({each.key, each.found.meta ? each.found.meta->bytes() : 0, each.unused, each.held});
  return entries;
}

int collect_garbage(const CacheFolder& cache, const nlohmann::json& request) {
  GcPlan plan;
  const std::string job = own_lease().owner;
  std::vector<fs::path> aside;
  // Reads each meta.json, so without the lock: builders that end meanwhile want it.
  std::vector<GcEntry> entries = gc_entries(cache);
  {
    const OwnedFd lock = cache.await_lock();
    plan = plan_gc(std::move(entries), cache.leftovers(), gc_limits(request));
    // Moved aside under the lock, so that a builder that begins now does not meet them.
    for (const std::string& name : plan.leftovers) {
      const fs::path to = cache.removing(name.substr(0, name.find('.')), job + "." + std::to_string(aside.size()));
      if (rename_if_there(cache.path() / name, to)) aside.push_back(to);
    }
  }
  int code = 0;
  std::size_t leftovers = 0, removed = 0;
  for (const fs::path& each : aside)
    if (remove_or_say([&] { return remove_tree(each), true; }, code)) ++leftovers;
  for (const std::string& key : plan.entries)
    if (remove_or_say([&] { return cache.remove(key, job, kJustTaken) == CacheFolder::Removed::yes; }, code)) ++removed;
  const int printed = print_text(gc_text(removed, leftovers, plan.bytes_left));
  return printed != 0 ? printed : code;
}

int remove_entries(const CacheFolder& cache, const nlohmann::json& request) {
  const std::string job = own_lease().owner;
  for (const std::string& key : keys_meant(cache.keys(), request.at("keys").get<Keys>())) {
    if (cache.remove(key, job) != CacheFolder::Removed::held) continue;
    throw CacheError(kUsageCode, fmt::format("{}: a job reads it; end the job first", cache.entry(key).string()));
  }
  return 0;
}

}  // namespace

int cache_command(const OpenObjects& open) {
  return with_request([&](const nlohmann::json& request) {
    if (const auto store = store_asked(request, open)) return object_cache_command(*store, request);
    const CacheFolder cache(cache_asked(request), MakeFolder::no);
    const std::string what = request.at("do").get<std::string>();
    if (what == "ls") return list_entries(cache, request);
    if (what == "verify") return verify_entries(cache, request);
    if (what == "gc") return collect_garbage(cache, request);
    if (what == "rm") return remove_entries(cache, request);
    throw CacheError(kUsageCode, what + ": the cache has no such command");
  });
}

}  // namespace dtrain::data
