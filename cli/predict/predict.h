#pragma once
// `dtrain predict`: a job whose workers share the parts of a data set (data/python/dtrain_data).
#include <string>
#include <vector>

#include "cli/parse/parse.h"

namespace dtrain::cli {

// The words after `dtrain run` that do what these do after `dtrain predict`.
Result<std::vector<std::string>> predict_as_run(const std::vector<std::string>& words);

// As run_command(): exit code, and one thread.
int predict_command(const std::vector<std::string>& words);

}  // namespace dtrain::cli
