// Tested by test/unit/cli/resolve/resolve_strategy_test.cc.
#include "cli/parse/strategy_text.h"

#include <nlohmann/json.hpp>

#include "cli/base/usage_error.h"
#include "strategies/config/why_refused.h"

namespace dtrain::cli {
namespace {

bool names_strategy_file(const std::string& text) {
  return text.find_first_of("{\"[") == std::string::npos &&
         (text.find('/') != std::string::npos || text.find('.') != std::string::npos);
}

// Without white space outside of its strings.
std::string without_spaces(const std::string& text) {
  const auto json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_discarded() ? text : json.dump();
}

}  // namespace

Result<std::string> strategy_text(const std::string& value, const ReadText& read) {
  if (!names_strategy_file(value)) return value;
  auto text = read(value);
  if (!text) return text.error();
  if (text->find_first_not_of(" \t\r\n") == std::string::npos) return usage_error("the file is empty");
  if ((*text)[text->find_first_not_of(" \t\r\n")] != '{')
    return usage_error("the file is not a JSON object; dtrain reads JSON, not YAML (docs/training/config.md)");
  // A name that is there twice is an error, and would be lost here.
  if (auto wrong = config::why_refused(*text, {})) return usage_error(*wrong);
  return without_spaces(*text);
}

}  // namespace dtrain::cli
