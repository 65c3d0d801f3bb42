#include "data/options/mixture_json.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "data/options/common_options.h"
#include "data/options/loader_json.h"
#include "data/options/refuse_option.h"

namespace dtrain::data {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse_value(const std::string& where, const std::string& key, const Json& value,
                               std::string_view wanted) {
  refuse_option(where, fmt::format("{} is {}; it must be {}", key, value.dump().substr(0, 100), wanted));
}

// Takes the key out of the object, which is then one of a ParquetLoader's options. Null: there is none.
Json taken(Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return nullptr;
  Json value = std::move(*found);
  object.erase(found);
  return value;
}

// The keys that mixtures have from ParquetLoader are read as its own are.
ParquetLoaderOptions parquet_options(const std::string& where, const Json& object, ParquetLoaderOptions options) {
  set_options(where, object.dump(), options);
  return options;
}

MixtureSource source_of(const std::string& where, Json object) {
  if (!object.is_object()) refuse_value(where, "sources", object, "an array of objects");
  MixtureSource source;
  if (const Json name = taken(object, "name"); name.is_string()) {
    source.name = name.get<std::string>();
  } else {
    refuse_value(where, "the name of a source", name, "a string");
  }
  const std::string of_source = fmt::format("{}: source '{}'", where, source.name);
  if (const Json weight = taken(object, "weight"); weight.is_number()) {
    source.weight = weight.get<double>();
  } else if (!weight.is_null()) {
    refuse_value(of_source, "weight", weight, "a number");
  }
  for (const auto& entry : object.items()) {
    const std::string& key = entry.key();
    if (key != "paths" && key != "window_size_bytes" && key != "seed") {
      refuse_option(
          of_source,
          fmt::format("there is no key '{}'; a source has name, paths, weight, window_size_bytes and seed", key));
    }
  }
  const ParquetLoaderOptions read = parquet_options(of_source, object, {});
  source.paths = read.paths;
  if (object.contains("window_size_bytes")) source.window_size_bytes = read.window_size_bytes;
  if (object.contains("seed")) source.seed = read.seed;
  return source;
}

MixtureEnd end_of(const std::string& where, const Json& value) {
  constexpr std::array<std::pair<const char*, MixtureEnd>, 3> ends{
      {{"first", MixtureEnd::first}, {"all", MixtureEnd::all}, {"never", MixtureEnd::never}}};
  for (const auto& [name, end] : ends) {
    if (value == name) return end;
  }
  refuse_value(where, "epoch_ends", value, R"("first", "all" or "never")");
}

}  // namespace

void set_options(const std::string& where, const std::string& text, MixtureLoaderOptions& options) {
  Json object = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) refuse_option(where, "it is no JSON object");
  if (const Json sources = taken(object, "sources"); sources.is_array()) {
    options.sources.clear();
    for (const Json& source : sources) options.sources.push_back(source_of(where, source));
  } else if (!sources.is_null()) {
    refuse_value(where, "sources", sources, "an array of objects");
  }
  if (const Json ends = taken(object, "epoch_ends"); !ends.is_null()) options.epoch_ends = end_of(where, ends);
  if (object.contains("paths")) refuse_option(where, "paths are those of the sources");
  ParquetLoaderOptions read;
  copy_common_options(options, read);
  read = parquet_options(where, object, std::move(read));
  copy_common_options(read, options);
}

}  // namespace dtrain::data
