// Prints settings.
#include "cli/run/settings_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/base/text.h"

namespace dtrain::cli {

std::string all_settings(const std::vector<Setting>& settings) {
  constexpr std::size_t kWidestValue = 30;
  std::size_t flag_width = 0, value_width = 0;
  for (const Setting& setting : settings) {
    flag_width = std::max(flag_width, setting.flag.size());
    value_width = std::max(value_width, std::min(shell_quoted(setting.value).size(), kWidestValue));
  }
  std::string out;
  for (const Setting& setting : settings)
    out += fmt::format("  {:<{}}  {:<{}}  {}\n", setting.flag, flag_width, shell_quoted(setting.value), value_width,
                       setting.origin);
  return out;
}

std::string chosen_settings(const std::vector<Setting>& settings) {
  std::vector<Setting> chosen;
  const auto is_chosen = [](const Setting& setting) { return setting.origin != "default"; };
  std::copy_if(settings.begin(), settings.end(), std::back_inserter(chosen), is_chosen);
  return all_settings(chosen) +
         fmt::format("  {} more have their defaults (--print-config=all)\n", settings.size() - chosen.size());
}

std::string settings_json(const std::vector<Setting>& settings) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const Setting& setting : settings)
    out[setting.flag.substr(2)] = {{"value", setting.value}, {"origin", setting.origin}};
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace dtrain::cli
