#pragma once
// The settings in effect, with where each comes from, as people and as programs read them. Pure.
#include <string>
#include <vector>

#include "cli/resolve/resolve.h"

namespace dtrain::cli {

// One line for each: flag, value as a shell word, origin; each line behind two blanks.
std::string all_settings(const std::vector<Setting>& settings);

// The same without those that have their defaults, which the last line counts.
std::string chosen_settings(const std::vector<Setting>& settings);

// {"nproc": {"value": "2", "origin": "PET_NPROC_PER_NODE"}, ...}: values in the flags' own syntax.
std::string settings_json(const std::vector<Setting>& settings);

}  // namespace dtrain::cli
