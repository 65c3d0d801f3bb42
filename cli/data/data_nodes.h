#pragma once
// The nodes of a job, for the preprocessing before it: dtrain-data starts a job of its own with a process on each.
// Pure.
#include <optional>
#include <string>
#include <vector>

#include "cli/engines/cluster.h"
#include "cli/machine/host.h"
#include "cli/options/options.h"
#include "launcher/engines/placement.h"

namespace dtrain::cli {

// Who starts the agents of a job, by what find_start() finds. Nothing of it: they are not started from here.
struct JobNodes {
  const launcher::PlacementRequest* hosts = nullptr;
  const ClusterRequest* cluster = nullptr;
  bool srun = false;
};

// The flags of `dtrain run` that start a process on each node. Empty: there is one node, or each has a dtrain of its
// own. Under SLURM several count in an allocation alone: nobody waits in the queue twice. With DTRAIN_TOKEN one does.
std::vector<std::string> words_for_nodes(const Options& options, const Host& host, const JobNodes& nodes);

// The same for the job of a config that `dtrain run` would start. Error: its words for the nodes are wrong.
Result<std::vector<std::string>> nodes_of_config(RawOptions raw, const Host& host);

}  // namespace dtrain::cli
