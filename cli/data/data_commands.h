#pragma once
// `dtrain preprocess` and `dtrain cache`, and the data set of a `dtrain run`. dtrain-data does the work.
#include <optional>
#include <string>
#include <vector>

#include "cli/data/data_nodes.h"
#include "cli/data/data_program.h"
#include "cli/machine/host.h"
#include "cli/parse/parse.h"

namespace dtrain::cli {

// Builds or finds the data set of a config. Exit code: 0; 2 if the config or an input is wrong; 124 if another job has
// built it for too long; 125 if it cannot be written; 127 without dtrain-data; that of a script's job, if it fails.
int preprocess_command(const std::vector<std::string>& words);

// Exit code: 0; 1 if `verify` finds damage; 2, 125 and 127 as above.
int cache_command(const std::vector<std::string>& words);

// The data set that the job's config names: built or found, locked against gc until this process and its children have
// ended, and named in the environment (DTRAIN_DATASET). Nothing: the job can go on. Else the exit code; the reason is
// said. Forks: call with one thread.
struct DataAs {
  bool quiet = false;
  bool becomes_another = false;  // this process is going to execute another program, which then has the lock
  JobNodes nodes{};              // of the job; several share the work
  AskNodes ask{};                // before something is built for other nodes; empty: there are none that can be asked
};
std::optional<int> provide_dataset(const RawOptions& raw, Host& host, const DataAs& as);

// The rows that a recipe makes of raw_input, likewise: the command gets their folder in its place, and the environment
// the recipe (DTRAIN_RECIPE). After provide_dataset().
std::optional<int> provide_rows(RawOptions& raw, Host& host, const DataAs& as);

}  // namespace dtrain::cli
