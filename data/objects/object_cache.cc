// Tested by test/unit/data/objects/build_object_test.cc.
#include "data/objects/object_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <tuple>

#include "data/cache/cache_error.h"
#include "data/cache/sha256.h"

namespace dtrain::data {
namespace {

using SizesOfObjects = std::map<std::string, std::uint64_t>;

std::chrono::seconds age_in_store(std::int64_t changed) {
  return std::chrono::seconds(std::max<std::int64_t>(0, std::time(nullptr) - changed));
}

std::string damage_of_build(const ObjectBuild& build, const SizesOfObjects& sizes) {
  if (!build.meta) return "meta.json cannot be read";
  if (build.meta->key != build.key) return "meta.json is that of another entry";
  for (const CachedFile& file : build.meta->files) {
    const auto found = sizes.find(file.path);
    if (found == sizes.end()) return file.path + " is missing";
    if (found->second != file.size)
      return fmt::format("{} has {} bytes, and should have {}", file.path, found->second, file.size);
  }
  return "";
}

Lease claim_of_text(const std::string& text) {
  if (auto lease = parse_lease(text)) return *lease;
  Lease unknown;
  unknown.owner = text;
  unknown.user = "somebody";
  unknown.host = "an unknown host";
  unknown.beat = 1;
  return unknown;
}

ObjectBuild look_at_build(ObjectStore& store, const std::string& folder) {
  const std::size_t dot = folder.find('.');
  ObjectBuild build{.name = folder, .key = folder.substr(0, dot), .job = folder.substr(dot + 1)};
  SizesOfObjects sizes;
  std::map<std::string, std::int64_t> changed;
  std::int64_t last = 0;
  for (const ObjectSeen& each : store.objects(folder)) {
    sizes[each.name] = each.size;
    changed[each.name] = each.changed;
    last = std::max(last, each.changed);
  }
  build.has_meta = sizes.contains("meta.json");
  build.quiet = age_in_store(last);
  build.unused = age_in_store(changed.contains("used") ? changed["used"] : last);
  if (build.has_meta) {
    const auto text = store.read(folder + "/meta.json");
    build.has_meta = text.has_value();  // else it has just been removed
    if (text) build.meta = parse_meta(*text);
    build.damage = damage_of_build(build, sizes);
  } else if (sizes.contains("claim")) {
    if (const auto text = store.read(folder + "/claim")) build.claim = claim_of_text(*text);
  }
  return build;
}

bool is_build_name(const std::string& name) {
  const std::size_t dot = name.find('.');
  return dot != std::string::npos && dot + 1 < name.size() && is_cache_key(name.substr(0, dot));
}

}  // namespace

std::string build_name(const std::string& key, const std::string& job) { return key + "." + job; }

std::vector<ObjectBuild> builds_in(ObjectStore& store, const std::string& key) {
  std::vector<ObjectBuild> builds;
  for (const std::string& folder : store.folders())
    if (is_build_name(folder) && (key.empty() || folder.starts_with(key + ".")))
      builds.push_back(look_at_build(store, folder));
  const auto made = [](const ObjectBuild& build) { return build.meta ? build.meta->made : 0; };
  std::sort(builds.begin(), builds.end(), [&](const ObjectBuild& a, const ObjectBuild& b) {
    return std::tuple(made(a), a.name) < std::tuple(made(b), b.name);
  });
  return builds;
}

const ObjectBuild* whole_build(const std::vector<ObjectBuild>& builds) {
  const auto found =
      std::find_if(builds.begin(), builds.end(), [](const ObjectBuild& build) { return build.is_whole(); });
  return found == builds.end() ? nullptr : &*found;
}

void touch_build(ObjectStore& store, const ObjectBuild& build) {
  try {
    store.write(build.name + "/used", "");
  } catch (const CacheError&) {  // of a cache that may only be read; nothing but its age depends on it
    return;
  }
}

bool is_committed_by_now(ObjectStore& store, const ObjectBuild& build) {
  return !build.has_meta && store.read(build.name + "/meta.json").has_value();
}

void remove_build(ObjectStore& store, const ObjectBuild& build) {
  if (build.has_meta) store.remove(build.name + "/meta.json");
  store.remove_folder(build.name);
}

std::optional<std::string> first_difference(ObjectStore& store, const ObjectBuild& build) {
  if (!build.damage.empty()) return build.damage;
  for (const CachedFile& file : build.meta->files) {
    try {
      Sha256 digest;
      store.read_through(build.name + "/" + file.path, [&](std::string_view piece) { digest.add(piece); });
      if (digest.end() != file.sha256) return fmt::format("{} is not what was written: its SHA-256 differs", file.path);
    } catch (const CacheError& error) {
      return fmt::format("{} cannot be read ({})", file.path, error.what());
    }
  }
  return std::nullopt;
}

}  // namespace dtrain::data
