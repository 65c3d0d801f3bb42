#pragma once
// `dtrain-data process RECIPE.json FOLDER [PROCESSES]`: for developers and benchmarks.
#include <span>
#include <string_view>

namespace dtrain::data {

// Prints the report as JSON. Returns the exit code: 2 for a wrong recipe, 1 for files that cannot be used.
int run_process(std::span<const std::string_view> words);

}  // namespace dtrain::data
