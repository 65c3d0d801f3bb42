// Tested by test/unit/cli/config/config_json_test.cc.
#include "cli/config/config_json.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "cli/config/config_words.h"

namespace dtrain::cli {
namespace {

using ConfigJson = nlohmann::ordered_json;

// YAML's numbers may begin with + or a point, and end with a point.
std::optional<ConfigJson> number_of(std::string word) {
  if (word.find_first_of("0123456789") == std::string::npos) return std::nullopt;
  if (word.starts_with('+')) word.erase(0, 1);
  const std::size_t first = word.starts_with('-') ? 1 : 0;
  if (first < word.size() && word[first] == '.') word.insert(first, "0");
  if (word.ends_with('.')) word += '0';
  if (word.find_first_not_of("+-.0123456789eE") != std::string::npos) return std::nullopt;
  ConfigJson json = ConfigJson::parse(word, nullptr, /*allow_exceptions=*/false);
  return json.is_number() ? std::optional(std::move(json)) : std::nullopt;
}

ConfigJson json_of_value(const ConfigValue& value) {
  switch (value.kind) {
    case ConfigValue::Kind::null:
      return nullptr;
    case ConfigValue::Kind::word:
      if (const auto on = bool_of(value)) return *on;
      if (auto number = number_of(value.text)) return *number;
      return value.text;
    case ConfigValue::Kind::text:
      return value.text;
    case ConfigValue::Kind::list: {
      ConfigJson json = ConfigJson::array();
      for (const ConfigValue& item : value.items) json.push_back(json_of_value(item));
      return json;
    }
    case ConfigValue::Kind::map: {
      ConfigJson json = ConfigJson::object();
      for (const ConfigValue& item : value.items) json[item.key] = json_of_value(item);
      return json;
    }
  }
  return nullptr;
}

}  // namespace

std::string json_text(const ConfigValue& value) { return json_of_value(value).dump(); }

}  // namespace dtrain::cli
