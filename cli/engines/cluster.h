#pragma once
// --engine ray: the job's agents are started on the nodes of a cluster, which a shim knows. Pure.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/machine/host.h"
#include "cli/options/options.h"
#include "launcher/engine_wire/shim_wire.h"
#include "launcher/engines/placement.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

struct ClusterRequest {
  launcher::PlacementRequest placement;  // its hosts are the shim's to say
  launcher::ShimRequest nodes;
};

// Nothing: no cluster is named, or this process is the agent on a node of it. A live address of Ray's counts by itself
// where several nodes are asked for and nobody says more.
Result<std::optional<ClusterRequest>> cluster_that_counts(const RawOptions& raw, const Options& options,
                                                          const Host& host);

// What of the environment goes to nodes of a cluster: environment_to_send(), but what the engine says of this node.
std::map<std::string, std::string> environment_for_cluster(const Host& host, const std::string& token);

}  // namespace dtrain::cli
