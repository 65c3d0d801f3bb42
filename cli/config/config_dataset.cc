// Tested by test/unit/cli/config/config_dataset_test.cc.
#include "cli/config/config_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/config/config_json.h"
#include "cli/config/config_words.h"

namespace dtrain::cli {
namespace {

using DatasetJson = nlohmann::ordered_json;

// Keys of `backend.processor` that a recipe in a file is carried out with, too.
constexpr std::string_view kLimits[] = {"parallelism", "memory_limit_bytes"};

bool is_limit(std::string_view key) {
  return std::find(std::begin(kLimits), std::end(kLimits), key) != std::end(kLimits);
}

// "dataset.steps[2].cast" -> 12, with all that is within.
void add_lines(const ConfigValue& value, const std::string& path, DatasetJson& lines) {
  lines[path] = value.line;
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    const ConfigValue& item = value.items[i];
    const bool is_list = value.kind == ConfigValue::Kind::list;
    add_lines(item, is_list ? fmt::format("{}[{}]", path, i) : fmt::format("{}.{}", path, item.key), lines);
  }
}

bool has_type(const ConfigKey& key, std::string_view type) {
  for (const std::string& each : split(key.types, ' '))
    if (each == type) return true;
  return false;
}

bool fits_type(const ConfigValue& value, const std::string& type, const DatasetJson& json) {
  if (type == "array") return value.kind == ConfigValue::Kind::list;
  if (type == "object") return value.kind == ConfigValue::Kind::map;
  if (type == "string") return value.is_scalar();
  if (type == "integer") return json.is_number_unsigned() && value.kind == ConfigValue::Kind::word;
  if (type == "boolean") return json.is_boolean();
  return false;
}

std::string words_of_types(const ConfigKey& key) {
  std::string words;
  for (const std::string& type : split(key.types, ' ')) {
    if (type == "null") continue;
    const std::string_view word = type == "array"     ? "a list"
                                  : type == "object"  ? "a map"
                                  : type == "integer" ? "a whole number"
                                  : type == "boolean" ? "true or false"
                                                      : "a word";
    words += (words.empty() ? "" : " or ") + std::string(word);
  }
  return words;
}

}  // namespace

struct ConfigDataset::Parts {
  std::string file;
  DatasetJson dataset = DatasetJson::object();
  DatasetJson lines = DatasetJson::object();
  std::string cache_dir{};
  std::string section{};  // where `dataset` stands
  std::string processor = "native";
  std::map<std::string, std::string> places{};  // of keys of `backend.processor`
  std::string idle{}, idle_for_rows{};          // the first key of each kind

  Error wrong(const ConfigValue& value, const std::string& path, const std::string& what) const {
    return usage_error(what).in(place_in(file, value, path));
  }
  // Of one word, or of a list of them.
  Result<DatasetJson> paths_in(const ConfigValue& value, const std::string& path) const {
    DatasetJson paths = DatasetJson::array();
    const auto take = [&](const ConfigValue& one, const std::string& at) -> Result<void> {
      if (!one.is_scalar()) return wrong(one, at, "expected a word");
      if (auto fine = check_path(one.text); !fine) return wrong(one, at, fine.error().message);
      paths.push_back(one.text);
      return {};
    };
    if (value.is_scalar())
      if (auto done = take(value, path); !done) return done.error();
    for (std::size_t i = 0; i < value.items.size(); ++i)
      if (auto done = take(value.items[i], fmt::format("{}[{}]", path, i)); !done) return done.error();
    return paths;
  }
  bool has_script() const { return processor != "native"; }
  Result<void> check_processor() const {
    constexpr const char* kWhose = "python, dask, modin or ray";
    if (has_script() && !section.empty() && !dataset.contains("script"))
      return usage_error(fmt::format("{}: script is missing: name the Python file with process()", places.at("type")));
    if (const auto place = places.find("script"); !has_script() && place != places.end())
      return usage_error(
          fmt::format("{}: it is for a processor of type {}; this one is native", place->second, kWhose));
    if (const auto workers = places.find("num_workers"); processor == "ray" && workers != places.end())
      return usage_error(fmt::format("{}: Ray Data counts its workers itself; remove the key", workers->second));
    return {};
  }
  void may_be_idle(const ConfigValue& value, const std::string& path, bool is_for_rows) {
    if (idle.empty()) idle = place_in(file, value, path);
    if (idle_for_rows.empty() && !is_for_rows) idle_for_rows = place_in(file, value, path);
  }
  DatasetJson limits() const {
    DatasetJson found = DatasetJson::object();
    for (const std::string_view key : kLimits)
      if (dataset.contains(key)) found[std::string(key)] = dataset[std::string(key)];
    return found;
  }
};

ConfigDataset::ConfigDataset(std::string file) : parts_(std::make_unique<Parts>()) { parts_->file = std::move(file); }
ConfigDataset::~ConfigDataset() = default;

Result<void> ConfigDataset::take_key(const ConfigKey& key, const ConfigValue& value, const std::string& path) {
  DatasetJson json = DatasetJson::parse(json_text(value));
  bool fits = false;
  for (const std::string& type : split(key.types, ' ')) fits = fits || fits_type(value, type, json);
  if (!fits) return parts_->wrong(value, path, "expected " + words_of_types(key));
  if (has_type(key, "integer") && json == 0 && key.name != "seed")
    return parts_->wrong(value, path, "expected a whole number above 0");
  // A word that looks like a number is a name where a name is wanted.
  if (has_type(key, "string") && value.is_scalar()) json = value.text;
  if (key.name == "script")
    if (auto fine = check_path(value.text); !fine) return parts_->wrong(value, path, fine.error().message);
  if (has_type(key, "string") && has_type(key, "array")) {
    auto paths = parts_->paths_in(value, path);
    if (!paths) return paths.error();
    json = std::move(*paths);
  }
  parts_->dataset[std::string(key.name)] = std::move(json);
  add_lines(value, fmt::format("{}.{}", key.section, key.name), parts_->lines);
  if (key.section != "dataset") {
    parts_->may_be_idle(value, path, is_limit(key.name));
    parts_->places[std::string(key.name)] = place_in(parts_->file, value, path);
  }
  return {};
}

Result<void> ConfigDataset::take_section(const ConfigValue& value) {
  if (value.kind != ConfigValue::Kind::map) return parts_->wrong(value, "dataset", "expected a map of keys");
  parts_->section = place_in(parts_->file, value, "dataset");
  parts_->lines["dataset"] = value.line;
  return {};
}

bool is_in_store(const std::string& place) { return place.starts_with("s3://") || place.starts_with("gs://"); }

Result<std::string> cache_place(const std::string& text) {
  const std::size_t colon = text.find("://");
  if (colon == std::string::npos) return text;
  std::string rest = text.substr(colon + 3);
  if (is_in_store(text)) {
    while (rest.ends_with('/')) rest.pop_back();
    const bool has_hole = rest.empty() || rest.starts_with('/') || rest.find("//") != std::string::npos;
    if (has_hole || rest.find_first_of("?#@") != std::string::npos)
      return usage_error("expected s3://BUCKET/PREFIX or gs://BUCKET/PREFIX; credentials have a key of their own");
    return text.substr(0, colon + 3) + rest;
  }
  if (const std::string scheme = text.substr(0, colon); scheme != "file")
    return usage_error(
        fmt::format("dtrain has no cache in {}://; name a folder that all nodes have, s3://BUCKET/PREFIX "
                    "or gs://BUCKET/PREFIX",
                    printable(scheme, 20)));
  if (!rest.starts_with('/')) return usage_error("expected file:///, and the whole path");
  return rest;
}

Result<void> ConfigDataset::take_cache_dir(const ConfigValue& value, const std::string& path) {
  if (!value.is_scalar() || value.text.empty()) return parts_->wrong(value, path, "expected a folder");
  if (auto fine = check_path(value.text); !fine) return parts_->wrong(value, path, fine.error().message);
  auto folder = cache_place(value.text);
  if (!folder) return parts_->wrong(value, path, folder.error().message);
  parts_->cache_dir = std::move(*folder);
  parts_->lines["backend.cache_dir"] = value.line;
  parts_->may_be_idle(value, path, true);
  return {};
}

Result<void> ConfigDataset::take_processor(const ConfigValue& value, const std::string& path) {
  if (!value.is_scalar()) return parts_->wrong(value, path, "expected one word, such as native");
  if (auto fine = one_of(value.text, split(kProcessorTypes, ',')); !fine)
    return parts_->wrong(value, path, fine.error().message);
  parts_->processor = value.text;
  parts_->places["type"] = place_in(parts_->file, value, path);
  parts_->may_be_idle(value, path, false);
  return {};
}

Result<std::optional<std::string>> ConfigDataset::request(const std::string& engine, bool for_rows) const {
  const Parts& parts = *parts_;
  if (auto done = parts.check_processor(); !done) return done.error();
  const bool has_limits = for_rows && !parts.limits().empty();
  if (parts.section.empty() && parts.cache_dir.empty() && !has_limits) return std::optional<std::string>();
  DatasetJson request = {{"file", parts.file}, {"cache_dir", parts.cache_dir}};
  if (has_limits) request["limits"] = parts.limits();
  if (!parts.section.empty()) {
    if (!parts.dataset.contains("input"))
      return usage_error(fmt::format("{}: input is missing: name the files to read", parts.section));
    request["dataset"] = parts.dataset;
    request["lines"] = parts.lines;
    if (parts.has_script()) request["dataset"]["processor"] = parts.processor;
    if (!engine.empty()) request["engine"] = engine;
  }
  return std::optional(request.dump(-1, ' ', false, DatasetJson::error_handler_t::replace));
}

bool ConfigDataset::is_in_store() const { return cli::is_in_store(parts_->cache_dir); }

std::string ConfigDataset::idle_key(bool for_rows) const {
  if (!parts_->section.empty()) return "";
  return for_rows ? parts_->idle_for_rows : parts_->idle;
}

}  // namespace dtrain::cli
