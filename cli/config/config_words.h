#pragma once
// From values of a config to the texts of flags. Pure.
#include <optional>
#include <string>
#include <string_view>

#include "cli/config/config_tree.h"
#include "cli/table/flags.h"

namespace dtrain::cli {

// true, yes and on, false, no and off, as words, in small or large letters. Nothing: it is no bool.
std::optional<bool> bool_of(const ConfigValue& value);

// Error: a path that only a shell would understand ("~/data"). A folder of this name would come to be.
Result<void> check_path(std::string_view path);

// What a flag takes beside one word.
enum class ConfigShape {
  word,
  words,   // a list is joined by commas
  texts,   // the same, and a comma within one is doubled
  pairs,   // a map is NAME=VALUE,...
  object,  // a map is JSON
};
ConfigShape shape_of(const Flag& flag);

// In the flag's own syntax; a switch's is "1" or "0". The error says what was expected, and no value.
Result<std::string> flag_text(const Flag& flag, const ConfigValue& value);

}  // namespace dtrain::cli
