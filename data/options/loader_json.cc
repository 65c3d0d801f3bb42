#include "data/options/loader_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "data/options/refuse_option.h"
#include "dtrain/errors.h"

namespace dtrain::data {
namespace {

using Json = nlohmann::json;
using Options = ParquetLoaderOptions;

// Each says what the value must be, if it is not that.
using Wanted = std::optional<std::string_view>;

Wanted read(const Json& value, bool& to) {
  if (!value.is_boolean()) return "true or false";
  to = value.get<bool>();
  return std::nullopt;
}

Wanted read(const Json& value, std::uint64_t& to) {
  if (!value.is_number_unsigned()) return "a whole number of 0 or more";
  to = value.get<std::uint64_t>();
  return std::nullopt;
}

Wanted read(const Json& value, std::int64_t& to) {
  if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX)) {
    return "a whole number";
  }
  to = value.get<std::int64_t>();
  return std::nullopt;
}

Wanted read(const Json& value, int& to) {
  std::int64_t wide = 0;
  const Wanted wanted = read(value, wide);
  if (wanted || wide < INT32_MIN || wide > INT32_MAX) return "a whole number of 32 bits";
  to = static_cast<int>(wide);
  return std::nullopt;
}

Wanted read(const Json& value, std::vector<std::string>& to) {
  constexpr std::string_view wanted = "an array of strings";
  if (!value.is_array()) return wanted;
  to.clear();
  for (const Json& one : value) {
    if (!one.is_string()) return wanted;
    to.push_back(one.get<std::string>());
  }
  return std::nullopt;
}

Wanted read(const Json& value, std::map<std::string, std::vector<std::string>>& to) {
  constexpr std::string_view wanted = "an object of arrays of strings";
  if (!value.is_object()) return wanted;
  to.clear();
  for (const auto& [name, columns] : value.items()) {
    if (read(columns, to[name])) return wanted;
  }
  return std::nullopt;
}

Wanted read(const Json& value, std::map<std::string, double>& to) {
  constexpr std::string_view wanted = "an object of numbers";
  if (!value.is_object()) return wanted;
  to.clear();
  for (const auto& [name, number] : value.items()) {
    if (!number.is_number()) return wanted;
    to[name] = number.get<double>();
  }
  return std::nullopt;
}

Wanted read_window(const Json& value, Options& options) {
  std::int64_t bytes = 0;
  if (value == "auto") {
    bytes = Options::auto_window;
  } else if (!value.is_null() && (read(value, bytes) || bytes < 1)) {
    return "a number of bytes, null for all rows at once, or \"auto\"";
  }
  options.window_size_bytes = bytes;
  return std::nullopt;
}

struct Key {
  const char* name;
  Wanted (*read)(const Json&, Options&);
};

template <auto member>
Key key(const char* name) {
  return {name, [](const Json& value, Options& options) { return read(value, options.*member); }};
}

const std::vector<Key>& keys_of_loader_section() {
  static const std::vector<Key> keys{{"window_size_bytes", read_window},
                                     key<&Options::fully_executed>("fully_executed")};
  return keys;
}

const std::vector<Key>& keys_of_options() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> all{key<&Options::paths>("paths"),
                         key<&Options::columns>("columns"),
                         key<&Options::matrices>("matrices"),
                         key<&Options::fill>("fill"),
                         key<&Options::batch_size>("batch_size"),
                         key<&Options::rank>("rank"),
                         key<&Options::world_size>("world_size"),
                         key<&Options::shuffle>("shuffle"),
                         key<&Options::seed>("seed"),
                         key<&Options::one_reader>("one_reader"),
                         key<&Options::drop_last>("drop_last"),
                         key<&Options::prefetch>("prefetch")};
    all.insert(all.end(), keys_of_loader_section().begin(), keys_of_loader_section().end());
    return all;
  }();
  return keys;
}

void set(const std::string& where, const std::string& text, const std::vector<Key>& keys, Options& options) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) refuse_option(where, "it is no JSON object");
  for (const auto& [name, value] : json.items()) {
    const Key* found = nullptr;
    std::vector<std::string> known;
    for (const Key& one : keys) {
      known.emplace_back(one.name);
      if (name == one.name) found = &one;
    }
    if (found == nullptr) {
      refuse_option(where, fmt::format("there is no key '{}'; it has {}", name, fmt::join(known, ", ")));
    }
    if (const Wanted wanted = found->read(value, options)) {
      refuse_option(where, fmt::format("{} is {}; it must be {}", name, value.dump().substr(0, 100), *wanted));
    }
  }
}

}  // namespace

void set_options(const std::string& where, const std::string& text, Options& options) {
  set(where, text, keys_of_options(), options);
}

void set_loader_section(const std::string& where, const std::string& text, Options& options) {
  set(where, text, keys_of_loader_section(), options);
}

}  // namespace dtrain::data
