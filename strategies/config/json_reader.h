#pragma once
// Reads a JSON object key by key. In the end, a key that nobody asked for is an error. Pure.
// Tested by test/unit/strategies/config/parse_config_test.cc.
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtrain/errors.h"

namespace dtrain::config {

using Json = nlohmann::json;

// Text that is no JSON, has a name twice in one object, or is nested deeper than configs are: nothing.
std::optional<Json> json_of(const std::string& text);

// "dtrain: strategy: " and what is wrong.
[[noreturn]] void refuse(const std::string& what);

// Words and what they mean.
template <class Value>
using WordTable = std::initializer_list<std::pair<std::string_view, Value>>;

class JsonReader {
 public:
  // `path`: what errors call the object; empty: it is the whole. Throws ConfigError if `json` is no object.
  JsonReader(const Json& json, std::string path);

  std::string path_of(std::string_view key) const;
  bool has(std::string_view key) const { return json_.contains(key); }
  // It has nothing, {}, [] or null there.
  bool is_empty(std::string_view key) const { return !has(key) || json_.at(std::string(key)).empty(); }
  // Some key of it begins with this.
  bool keys_begin_with(std::string_view prefix) const;
  // What a key has. Nothing, if it is not there, or is null or "auto".
  const Json* value(std::string_view key);

  std::optional<bool> flag(std::string_view key);
  std::optional<double> number(std::string_view key, double low, double high);
  // A whole number, also if it is written as 5e8.
  std::optional<std::int64_t> count(std::string_view key, std::int64_t low, std::int64_t high);
  std::optional<std::string> word(std::string_view key);
  template <class Value>
  std::optional<Value> one_of(std::string_view key, WordTable<Value> table) {
    const std::optional<std::string> text = word(key);
    if (!text) return std::nullopt;
    std::vector<std::string_view> known;
    for (const auto& [name, value] : table) {
      if (name == *text) return value;
      known.push_back(name);
    }
    unknown_word(key, *text, known);
  }
  std::optional<JsonReader> section(std::string_view key);

  // These keys change nothing here, whatever they have.
  void without_meaning(std::initializer_list<std::string_view> keys);
  // These keys must not be there at all.
  void forbid(std::initializer_list<std::string_view> keys, const std::string& advice);
  // What the key asks for is not there. It may say that it asks for nothing: false, 0, "", "no", "none", {}, [], or an
  // object that is not enabled or has no device.
  void off(std::string_view key, const std::string& advice);
  void off(std::initializer_list<std::string_view> keys, const std::string& advice);
  // The key may have this value alone.
  void only(std::string_view key, const Json& wanted, const std::string& advice);
  [[noreturn]] void refuse_value(std::string_view key, const std::string& wanted) const;

  // Throws ConfigError for the first key that none of the calls above named.
  void finish() const;

 private:
  [[noreturn]] void unknown_word(std::string_view key, const std::string& word,
                                 const std::vector<std::string_view>& known) const;

  const Json& json_;
  std::string path_;
  std::set<std::string, std::less<>> seen_{};
};

}  // namespace dtrain::config
