#pragma once
// --ship: the files that a job takes along to its nodes (launcher/ship).
#include <string>

#include "cli/machine/host.h"
#include "cli/options/options.h"
#include "cli/parse/parse.h"
#include "launcher/engine_wire/agent_wire.h"

namespace dtrain::cli {

// Whether the user wants it.
Result<bool> ships(const Options& options);

// The error of one who has typed --ship where no agent is told anything by this process.
Result<void> check_no_ship(const Options& options);

// Adds the files to the task, if the user wants it. The program's word becomes one that is right in each folder. Reads
// all of the files.
Result<void> add_ship(const RawOptions& raw, const Options& options, const Host& host, launcher::AgentTask& task);

// For --dry-run; empty: there are none.
std::string ship_shown(const launcher::AgentTask& task);

}  // namespace dtrain::cli
