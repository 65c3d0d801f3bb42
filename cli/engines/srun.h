#pragma once
// --engine slurm outside of a step: on a login host, or in an allocation's script or shell. srun makes the step. Pure.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "cli/machine/host.h"
#include "cli/nodes/nodes.h"
#include "cli/options/options.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

inline constexpr const char* kNodesOfAllocation = "SLURM_JOB_NUM_NODES";

// What dtrain becomes: srun, with a dtrain of the same flags on each node. Nothing: the engine is another one, or this
// is a step already.
Result<std::optional<std::vector<std::string>>> srun_that_counts(const RawOptions& raw, const Options& options,
                                                                 const Host& host);

// The same step with a task on each node that says whether the node sees a folder (`dtrain agent --look`), on the
// standard output of srun, among other lines perhaps. `step`: as above.
std::vector<std::string> srun_that_looks(const std::vector<std::string>& step, const Host& host,
                                         const std::string& folder);

// Whether srun's own words, or its variable, say how many CPUs a task has.
bool has_cpus_said(const Options& options, const Host& host);

// How many nodes that step will have. Nothing: that is not known, as srun's own words say it, or SLURM will.
std::optional<NodeRange> nodes_of_step(const Options& options, const Host& host);

// What sbatch and salloc say of tasks, which srun would take for words of its own. A step of ours has one on each node.
inline constexpr std::array kTasksOfAllocation = {"SLURM_NTASKS",          "SLURM_NPROCS",
                                                  "SLURM_NTASKS_PER_NODE", "SLURM_NTASKS_PER_CORE",
                                                  "SLURM_NTASKS_PER_GPU",  "SLURM_NTASKS_PER_SOCKET",
                                                  "SLURM_NTASKS_PER_TRES"};

// The part of --num-proc that each node of that step will have, if it is known by now: a range becomes a number in the
// step, and srun's own words may ask for other nodes than those of the allocation.
Result<std::optional<int>> part_of_step(Options options, const Host& host);

}  // namespace dtrain::cli
