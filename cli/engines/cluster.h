#pragma once
// --engine ray and --engine spark: the job's agents are started on the nodes of a cluster, which a shim knows. Pure.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/machine/host.h"
#include "cli/options/options.h"
#include "launcher/engine_wire/shim_wire.h"
#include "launcher/engines/placement.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

// A variable: the Python that knows the cluster, where that is not the one of the program (PYTHON_EXEC).
inline constexpr const char* kEnginePython = "DTRAIN_ENGINE_PYTHON";

struct ClusterEngine {
  std::string_view name;    // one of the choices of --engine
  std::string_view title;   // for people
  const char* variable;     // which says where the cluster is
  std::string_view begins;  // the variable counts by itself if its value begins so
  bool grows = false;       // a job with MIN:MAX gets other nodes in place of those that are lost
};

// That of the environment's address, if it has one.
const ClusterEngine* engine_of_address(const Host& host);

struct ClusterRequest {
  const ClusterEngine* engine = nullptr;
  launcher::PlacementRequest placement;  // its hosts are the shim's to say
  launcher::ShimRequest nodes;
};

// Nothing: no cluster is named, or this process is the agent on a node of it. An address of a cluster counts by itself
// where several nodes are asked for and nobody says more.
Result<std::optional<ClusterRequest>> cluster_that_counts(const RawOptions& raw, const Options& options,
                                                          const Host& host);

// What of the environment goes to nodes of a cluster: environment_to_send(), but what the engine says of this node.
std::map<std::string, std::string> environment_for_cluster(const Host& host, const std::string& token);

}  // namespace dtrain::cli
