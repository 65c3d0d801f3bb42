#pragma once
// A job whose agents are started by another program, on other hosts.
#include <string>
#include <vector>

#include "cli/machine/host.h"
#include "cli/parse/parse.h"
#include "launcher/engines/placement.h"

namespace dtrain::cli {

// Returns the job's exit code, or that of an error, which it says. With --dry-run: says what would be run where.
int submit(const RawOptions& raw, const Host& host, launcher::PlacementRequest request);

// This program's file.
std::string own_file();

// Executes srun in place of this program. Returns the exit code of an error, which it says. With --dry-run: says the
// command.
int become_srun(const RawOptions& raw, const Host& host, std::vector<std::string> words);

}  // namespace dtrain::cli
