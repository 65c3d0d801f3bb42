#pragma once
// --engine slurm outside of a step: on a login host, or in an allocation's script or shell. srun makes the step. Pure.
#include <optional>
#include <string>
#include <vector>

#include "cli/machine/host.h"
#include "cli/options/options.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

// What dtrain becomes: srun, with a dtrain of the same flags on each node. Nothing: the engine is another one, or this
// is a step already.
Result<std::optional<std::vector<std::string>>> srun_that_counts(const RawOptions& raw, const Options& options,
                                                                 const Host& host);

// The same step with a task on each node that says whether the node sees a folder (`dtrain agent --look`), on the
// standard output of srun. `step`: as above.
std::vector<std::string> srun_that_looks(const std::vector<std::string>& step, const Host& host,
                                         const std::string& folder);

// Of srun's own words, one that says how many CPUs a task has.
bool says_cpus(const std::string& word);

// The same for the number of nodes.
bool says_nodes(const std::string& word);

// The part of --num-proc that each node of that step will have, if it is known by now: a range becomes a number in the
// step, and srun's own words may ask for other nodes than those of the allocation.
Result<std::optional<int>> part_of_step(Options options, const Host& host);

}  // namespace dtrain::cli
