#pragma once
// `dtrain predict`: a job whose workers share the parts of a data set. SCRIPT is a Python script
// (data/python/dtrain_data), or a program that does the same (data/include/dtrain/predict.h).
#include <optional>
#include <string>
#include <vector>

#include "cli/machine/host.h"
#include "cli/parse/parse.h"

namespace dtrain::cli {

struct PredictRun {
  std::vector<std::string> words{};     // those after `dtrain run` that do the same
  std::optional<RawInput> raw_input{};  // --recipe
};
Result<PredictRun> predict_as_run(const std::vector<std::string>& words, const Host& host);

// As run_command(): exit code, and one thread.
int predict_command(const std::vector<std::string>& words);

}  // namespace dtrain::cli
