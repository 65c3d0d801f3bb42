#include "strategies/config/json_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace dtrain::config {
namespace {

constexpr int kDeepest = 16;
constexpr std::size_t kLongestShown = 120;

std::string shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= kLongestShown ? text : text.substr(0, kLongestShown) + "...";
}

// An object with one of these keys asks for something only if the key does.
constexpr std::string_view kSwitches[] = {"enabled", "device"};

bool asks_for_nothing(const Json& value) {
  if (value.is_null() || value.empty()) return true;
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == 0;
  if (value.is_object()) {
    return std::any_of(std::begin(kSwitches), std::end(kSwitches), [&](std::string_view key) {
      return value.contains(key) && !value[key].is_object() && asks_for_nothing(value[key]);
    });
  }
  const std::string word = value.is_string() ? value.get<std::string>() : "?";
  return word.empty() || word == "auto" || word == "no" || word == "NO" || word == "none" || word == "false";
}

}  // namespace

std::optional<Json> json_of(const std::string& text) {
  std::vector<std::set<std::string>> open;
  bool fine = true;
  const auto look = [&](int depth, Json::parse_event_t event, const Json& value) {
    fine = fine && depth <= kDeepest;
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key) fine = open.back().insert(value.get<std::string>()).second && fine;
    return fine;
  };
  Json json = Json::parse(text, look, /*allow_exceptions=*/false);
  if (json.is_discarded() || !fine) return std::nullopt;
  return json;
}

void refuse(const std::string& what) { throw ConfigError("dtrain: strategy: " + what); }

JsonReader::JsonReader(const Json& json, std::string path) : json_(json), path_(std::move(path)) {
  if (!json.is_object()) refuse(fmt::format("{} is {}, and must be an object", path_, shown(json)));
}

std::string JsonReader::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

const Json* JsonReader::value(std::string_view key) {
  seen_.emplace(key);
  const auto found = json_.find(key);
  if (found == json_.end() || found->is_null() || *found == "auto") return nullptr;
  return &*found;
}

void JsonReader::refuse_value(std::string_view key, const std::string& wanted) const {
  refuse(fmt::format("{} is {}, and must be {}", path_of(key), shown(json_.at(std::string(key))), wanted));
}

void JsonReader::unknown_word(std::string_view key, const std::string& word,
                              const std::vector<std::string_view>& known) const {
  refuse(fmt::format("{} '{}' is not known; one of {}", path_of(key), word.substr(0, kLongestShown),
                     fmt::join(known, ", ")));
}

std::optional<bool> JsonReader::flag(std::string_view key) {
  const Json* found = value(key);
  if (found == nullptr) return std::nullopt;
  if (!found->is_boolean()) refuse_value(key, "true or false");
  return found->get<bool>();
}

std::optional<double> JsonReader::number(std::string_view key, double low, double high) {
  const Json* found = value(key);
  if (found == nullptr) return std::nullopt;
  const double number = found->is_number() ? found->get<double>() : std::nan("");
  if (!(number >= low && number <= high)) {
    refuse_value(key, std::isinf(high) ? fmt::format("a number that is {} or more", low)
                                       : fmt::format("a number from {} to {}", low, high));
  }
  return number;
}

std::optional<std::int64_t> JsonReader::count(std::string_view key, std::int64_t low, std::int64_t high) {
  const Json* found = value(key);
  if (found == nullptr) return std::nullopt;
  const double number = found->is_number() ? found->get<double>() : std::nan("");
  // A double has all whole numbers up to 2^53, and no config needs more.
  if (!(number >= static_cast<double>(low) && number <= static_cast<double>(high) && number == std::floor(number)))
    refuse_value(key, fmt::format("a whole number from {} to {}", low, high));
  return static_cast<std::int64_t>(number);
}

std::optional<std::string> JsonReader::word(std::string_view key) {
  const Json* found = value(key);
  if (found == nullptr) return std::nullopt;
  if (!found->is_string()) refuse_value(key, "a word");
  return found->get<std::string>();
}

std::optional<JsonReader> JsonReader::section(std::string_view key) {
  const Json* found = value(key);
  if (found == nullptr) return std::nullopt;
  return JsonReader(*found, path_of(key));
}

void JsonReader::without_meaning(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) seen_.emplace(key);
}

bool JsonReader::keys_begin_with(std::string_view prefix) const {
  const auto items = json_.items();
  return std::any_of(items.begin(), items.end(), [&](const auto& item) { return item.key().starts_with(prefix); });
}

void JsonReader::forbid(std::initializer_list<std::string_view> keys, const std::string& advice) {
  for (const std::string_view key : keys) {
    if (has(key)) refuse(fmt::format("{} is there; {}", path_of(key), advice));
  }
}

void JsonReader::off(std::string_view key, const std::string& advice) {
  seen_.emplace(key);
  const auto found = json_.find(key);
  if (found == json_.end() || asks_for_nothing(*found)) return;
  refuse(fmt::format("{} is {}; {}", path_of(key), shown(*found), advice));
}

void JsonReader::off(std::initializer_list<std::string_view> keys, const std::string& advice) {
  for (const std::string_view key : keys) off(key, advice);
}

void JsonReader::only(std::string_view key, const Json& wanted, const std::string& advice) {
  const Json* found = value(key);
  if (found == nullptr || *found == wanted) return;
  refuse(fmt::format("{} is {}; {}", path_of(key), shown(*found), advice));
}

void JsonReader::finish() const {
  for (const auto& item : json_.items()) {
    if (!seen_.contains(item.key()))
      refuse(fmt::format("unknown key {}; remove it, or correct it (docs/training/config.md has the keys)",
                         path_of(item.key())));
  }
}

}  // namespace dtrain::config
