#pragma once
// torchrun's flags that have no work to do here, and what stays different when dtrain is called as torchrun.
#include <string>
#include <vector>

#include "cli/options/options.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

inline constexpr const char* kTorchrunPrefix = "[${role_name}${local_rank}]:";

// Judge all of them. The answer: lines to say once at start about flags without effect. Error: a value that dtrain
// cannot honour, with what to do instead. Pure.
Result<std::vector<std::string>> judge_torchrun_flags(const RawOptions& raw, const Options& options);

// Lines to say once about variables of torchrun's agent that ask for something dtrain does not do. Pure.
std::vector<std::string> judge_torchrun_variables(const Host& host);

// --event-log-handler: whether events go to stderr. Error: a handler that would have to be loaded from Python. Pure.
Result<bool> wants_event_log(const Options& options);

}  // namespace dtrain::cli
