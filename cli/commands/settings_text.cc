// Prints settings.
#include "cli/commands/settings_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/base/text.h"

namespace dtrain::cli {

std::string settings_table(const std::vector<Setting>& settings) {
  std::size_t flag_width = 0, value_width = 0;
  for (const Setting& setting : settings) {
    flag_width = std::max(flag_width, setting.flag.size());
    value_width = std::max(value_width, std::min<std::size_t>(shell_quoted(setting.value).size(), 28));
  }
  std::string out;
  for (const Setting& setting : settings)
    out += fmt::format("  {:<{}}  {:<{}}  {}\n", setting.flag, flag_width, shell_quoted(setting.value), value_width,
                       setting.origin);
  return out;
}

std::string settings_json(const std::vector<Setting>& settings) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const Setting& setting : settings)
    out[setting.flag.substr(2)] = {{"value", setting.value}, {"origin", setting.origin}};
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace dtrain::cli
