#pragma once
// From the text of a flag to a field, or the error that names the flag. Pure.
#include <chrono>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "cli/base/text.h"
#include "cli/machine/host.h"
#include "cli/options/options.h"

namespace dtrain::cli {

// 0 <= n <= most.
Result<void> take_number(const Options& options, FlagId id, int most, int& field);
// Whether the job is divided (--replica-groups). What is no number of groups is told where they are counted.
bool has_groups(const Options& options);
Result<void> take_seconds(const Options& options, FlagId id, std::chrono::milliseconds& field);
Result<void> take_switch(const Options& options, FlagId id, bool& field);

template <class Value>
Result<void> take_choice(const Options& options, FlagId id, Value& field,
                         std::initializer_list<std::pair<const char*, Value>> choices) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) {
    names.emplace_back(name);
    if (options.text(id) == name) field = value;
  }
  auto known = one_of(options.text(id), names);
  return known ? known : options.blame(id, known.error());
}

// The folder that the flag names, or the nearest one above it that exists, must be a folder that can be written to.
Result<void> check_folder(const Options& options, const Host& host, FlagId id);

}  // namespace dtrain::cli
