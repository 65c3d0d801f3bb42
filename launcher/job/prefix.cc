#include "launcher/job/prefix.h"

#include <fmt/core.h>

#include <array>
#include <utility>
#include <vector>

#include "launcher/job/text_template.h"

namespace dtrain::launcher {

std::string render_prefix(std::string_view prefix_template, const PrefixFields& fields) {
  std::vector<std::pair<std::string, std::string>> values = {{"role_name", fields.role_name},
                                                             {"local_rank", std::to_string(fields.local_rank)},
                                                             {"rank", std::to_string(fields.rank)},
                                                             {"hostname", fields.hostname}};
  if (fields.replica_group) values.emplace_back("replica_group", std::to_string(*fields.replica_group));
  return substitute(prefix_template, values);
}

std::string color_prefix(const std::string& prefix, int rank) {
  if (prefix.empty()) return prefix;
  // Readable on dark and light terminals; red is left to errors. Neighbouring ranks differ strongly.
  constexpr std::array kColors = {36, 33, 35, 32, 34, 96, 93, 95, 92, 94};
  return fmt::format("\x1b[{}m{}\x1b[0m", kColors[static_cast<unsigned>(rank) % kColors.size()], prefix);
}

}  // namespace dtrain::launcher
