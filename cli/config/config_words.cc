// Tested by test/unit/cli/config/config_file_test.cc.
#include "cli/config/config_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/config/config_json.h"

namespace dtrain::cli {
namespace {

struct ShapeOfFlag {
  FlagId id;
  ConfigShape shape;
};
constexpr std::array kShapes = {
    ShapeOfFlag{FlagId::hosts, ConfigShape::words},
    ShapeOfFlag{FlagId::resources, ConfigShape::pairs},
    ShapeOfFlag{FlagId::ship_files, ConfigShape::texts},
    ShapeOfFlag{FlagId::rdzv_endpoint, ConfigShape::words},
    ShapeOfFlag{FlagId::rdzv_conf, ConfigShape::pairs},
    ShapeOfFlag{FlagId::signals_to_handle, ConfigShape::words},
    ShapeOfFlag{FlagId::pass_signals, ConfigShape::words},
    ShapeOfFlag{FlagId::tee, ConfigShape::words},
    ShapeOfFlag{FlagId::redirects, ConfigShape::words},
    ShapeOfFlag{FlagId::ranks, ConfigShape::words},
    ShapeOfFlag{FlagId::local_ranks_filter, ConfigShape::words},
    ShapeOfFlag{FlagId::duplicate_stdout_filters, ConfigShape::texts},
    ShapeOfFlag{FlagId::duplicate_stderr_filters, ConfigShape::texts},
    ShapeOfFlag{FlagId::strategy, ConfigShape::object},
    ShapeOfFlag{FlagId::loader, ConfigShape::object},
};

std::string doubled_commas(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == ',' ? std::string(",,") : std::string(1, c);
  return out;
}

Error expects(ConfigShape shape) {
  switch (shape) {
    case ConfigShape::words:
    case ConfigShape::texts:
      return usage_error("expected a word or a list of words");
    case ConfigShape::pairs:
      return usage_error("expected a word NAME=VALUE,... or a map of words");
    case ConfigShape::object:
      return usage_error("expected a word or a map");
    case ConfigShape::word:
      break;
  }
  return usage_error("expected one word or number");
}

// Items of a list or map, joined by commas.
Result<std::string> joined_items(ConfigShape shape, const ConfigValue& value) {
  std::string out;
  for (const ConfigValue& item : value.items) {
    if (shape == ConfigShape::pairs && item.says_nothing()) continue;
    if (!item.is_scalar()) return expects(shape);
    if (!out.empty() || (shape != ConfigShape::pairs && &item != &value.items.front())) out += ',';
    if (shape == ConfigShape::pairs) out += item.key + '=';
    out += shape == ConfigShape::texts ? doubled_commas(item.text) : item.text;
  }
  return out;
}

}  // namespace

std::optional<bool> bool_of(const ConfigValue& value) {
  if (value.kind != ConfigValue::Kind::word) return std::nullopt;
  const std::string word = lower(value.text);
  if (word == "true" || word == "yes" || word == "on") return true;
  if (word == "false" || word == "no" || word == "off") return false;
  return std::nullopt;
}

Result<void> check_path(std::string_view path) {
  if (!path.starts_with('~')) return {};
  return usage_error("in a file ~ is no folder; write the whole path (./~ for a file that is called so)");
}

ConfigShape shape_of(const Flag& row) {
  const auto found = std::find_if(kShapes.begin(), kShapes.end(), [&](const auto& each) { return each.id == row.id; });
  return found == kShapes.end() ? ConfigShape::word : found->shape;
}

Result<std::string> flag_text(const Flag& row, const ConfigValue& value) {
  if (row.is_switch()) {
    const auto on = bool_of(value);
    if (!on) return usage_error("expected true or false");
    return std::string(*on ? "1" : "0");
  }
  if (const auto on = bool_of(value); on && row.choices.find("yes,no") != std::string_view::npos)
    return std::string(*on ? "yes" : "no");
  if (value.is_scalar()) {
    const bool is_path = row.value == "FILE" || row.value == "DIR";
    if (auto fine = check_path(is_path ? value.text : ""); !fine) return fine.error();
    return value.text;
  }
  const ConfigShape shape = shape_of(row);
  const bool is_list = value.kind == ConfigValue::Kind::list;
  if (shape == ConfigShape::object && !is_list) return json_text(value);
  const bool takes_list = shape == ConfigShape::words || shape == ConfigShape::texts;
  if (takes_list ? !is_list : shape != ConfigShape::pairs || is_list) return expects(shape);
  return joined_items(shape, value);
}

}  // namespace dtrain::cli
