// Tested by test/unit/data/cache/cache_key_test.cc.
#include "data/cache/cache_key.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "data/cache/sha256.h"

namespace dtrain::data {
namespace {

constexpr std::size_t kKeyDigits = 64;
constexpr std::array<std::string_view, 6> kNotInKey = {"input",   "inputs_by",          "threads",
                                                       "persist", "memory_limit_bytes", "parallelism"};

nlohmann::json without_nulls(const nlohmann::json& value) {
  if (!value.is_object()) return value;
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [name, each] : value.items())
    if (!each.is_null()) out[name] = without_nulls(each);
  return out;
}

nlohmann::json key_of_input(const CacheInput& file) {
  if (!file.sha256.empty()) return {{"size", file.size}, {"sha256", file.sha256}};
  return {{"path", file.path}, {"size", file.size}, {"mtime_ns", file.mtime_ns}};
}

}  // namespace

nlohmann::json canonical_recipe(const nlohmann::json& recipe) {
  nlohmann::json out = without_nulls(recipe);
  for (const std::string_view name : kNotInKey) out.erase(std::string(name));
  return out;
}

std::string cache_key(const nlohmann::json& recipe, const std::vector<CacheInput>& inputs) {
  nlohmann::json parts = {
      {"format", kCacheFormat}, {"recipe", canonical_recipe(recipe)}, {"inputs", nlohmann::json::array()}};
  for (const CacheInput& file : inputs) parts["inputs"].push_back(key_of_input(file));
  // A path need not be UTF-8. Two that differ in such bytes alone have the same key only with the same size and time.
  return sha256_of(parts.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

bool is_cache_key(const std::string& name) {
  return name.size() == kKeyDigits && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace dtrain::data
