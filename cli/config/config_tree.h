#pragma once
// A config file as a tree of values, each with its line. The file is YAML, and so is JSON. Pure.
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/result.h"

namespace dtrain::cli {

struct ConfigValue {
  enum class Kind {
    null,
    word,  // without quotes: true, 4, ddp
    text,  // with quotes
    list,
    map,
  } kind = Kind::null;
  std::string key{};   // of an entry of a map
  std::string text{};  // of a word or a text
  int line = 0;        // of the key, else of the value; from 1
  std::vector<ConfigValue> items{};

  bool is_scalar() const { return kind == Kind::word || kind == Kind::text; }
  // An empty list or map says as little as null does.
  bool says_nothing() const { return !is_scalar() && items.empty(); }
  // The entry of a map; nullptr if it has none.
  const ConfigValue* find(std::string_view name) const;
};

// "job.yaml:3: backend.type", which begins the line of an error or tells where a value comes from.
std::string place_in(const std::string& file, const ConfigValue& value, const std::string& path);

// `file`: its name, for errors. These are of one line each: not UTF-8, no YAML, a key that is there twice, several
// documents, an anchor within itself, a tag that means nothing here, too deep or too much. No error shows a value: it
// may be a secret.
Result<ConfigValue> read_config_tree(const std::string& text, const std::string& file);

}  // namespace dtrain::cli
