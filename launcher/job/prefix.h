#pragma once
// The text before each console line of a worker.
#include <optional>
#include <string>
#include <string_view>

namespace dtrain::launcher {

struct PrefixFields {
  std::string role_name;
  int local_rank = 0;
  int rank = 0;
  std::string hostname;  // short form, without the domain
  std::optional<int> replica_group = {};
};

// As rendered for one worker.
struct Prefix {
  std::string plain;
  std::string shown;  // in the rank's colour where the console has colours
};

// Replace ${role_name} ${local_rank} ${rank} ${hostname}, and ${replica_group} if there are groups; other `$` text
// stays (text_template.h).
std::string render_prefix(std::string_view prefix_template, const PrefixFields& fields);

// The prefix in the colour of its rank, for terminals. An empty prefix stays empty.
std::string color_prefix(const std::string& prefix, int rank);

}  // namespace dtrain::launcher
