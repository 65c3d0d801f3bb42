#pragma once
// torchrun's flags that a job on one node does not need, and what stays different when dtrain is called as torchrun.
#include <string>
#include <vector>

#include "cli/options.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

inline constexpr const char* kTorchrunPrefix = "[${role_name}${local_rank}]:";

// Judge all of them. The answer: lines to say once at start about flags without effect. Error: a value that this
// version cannot honour (more than one node, filters of output, ...). Pure.
Result<std::vector<std::string>> judge_torchrun_flags(const Options& options);

}  // namespace dtrain::cli
