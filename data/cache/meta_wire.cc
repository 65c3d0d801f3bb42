// Tested by test/unit/data/cache/meta_wire_test.cc.
#include "data/cache/meta_wire.h"

#include <utility>

namespace dtrain::data {
namespace {

using MetaJson = nlohmann::ordered_json;

bool is_inside(const std::string& path) {
  return !path.empty() && path[0] != '/' && ("/" + path + "/").find("/../") == std::string::npos;
}

MetaJson input_json(const CacheInput& file) {
  MetaJson json = {{"path", file.path}, {"size", file.size}, {"mtime_ns", file.mtime_ns}};
  if (!file.sha256.empty()) json["sha256"] = file.sha256;
  return json;
}

}  // namespace

std::uint64_t CacheMeta::bytes() const {
  std::uint64_t sum = 0;
  for (const CachedFile& file : files) sum += file.size;
  return sum;
}

std::uint64_t CacheMeta::all_rows() const {
  std::uint64_t sum = 0;
  for (const auto& [split, count] : rows) sum += count;
  return sum;
}

std::string meta_text(const CacheMeta& meta) {
  MetaJson json = {{"format", kCacheFormat},  {"key", meta.key},   {"made", meta.made},
                   {"seconds", meta.seconds}, {"rows", meta.rows}, {"recipe", meta.recipe}};
  json["inputs"] = MetaJson::array();
  for (const CacheInput& file : meta.inputs) json["inputs"].push_back(input_json(file));
  json["files"] = MetaJson::array();
  for (const CachedFile& file : meta.files)
    json["files"].push_back({{"path", file.path}, {"size", file.size}, {"sha256", file.sha256}});
  return json.dump(1, ' ', false, MetaJson::error_handler_t::replace) + "\n";
}

std::optional<CacheMeta> parse_meta(const std::string& text) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    if (json.at("format") != kCacheFormat) return std::nullopt;
    CacheMeta meta;
    meta.key = json.at("key").get<std::string>();
    meta.made = json.at("made").get<std::int64_t>();
    meta.seconds = json.at("seconds").get<double>();
    meta.rows = json.at("rows").get<std::map<std::string, std::uint64_t>>();
    meta.recipe = json.at("recipe");
    for (const auto& each : json.at("inputs"))
      meta.inputs.push_back({each.at("path").get<std::string>(), each.at("size").get<std::uint64_t>(),
                             each.at("mtime_ns").get<std::int64_t>(), each.value("sha256", std::string())});
    for (const auto& each : json.at("files")) {
      meta.files.push_back({each.at("path").get<std::string>(), each.at("size").get<std::uint64_t>(),
                            each.at("sha256").get<std::string>()});
      if (!is_inside(meta.files.back().path)) return std::nullopt;
    }
    return meta;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace dtrain::data
