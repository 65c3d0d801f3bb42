#pragma once
// `dtrain plan`: where the workers of a job would be, and what else was decided. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/engines/cluster.h"
#include "cli/machine/host.h"
#include "cli/options/options.h"
#include "cli/resolve/resolve.h"
#include "launcher/engine_wire/shim_wire.h"
#include "launcher/engines/placement.h"

namespace dtrain::cli {

struct LayoutNode {
  std::string name{};
  std::optional<int> workers{};     // nothing: the node itself counts them
  std::optional<int> first_rank{};  // nothing: the nodes agree on it when they meet
  // What the workers take together, or have; nothing: only the node knows.
  std::optional<double> gpus{}, cpus{}, memory{};
  // By worker, if each has its own.
  std::vector<std::string> own_gpus{}, own_cpus{};
};

struct JobLayout {
  int least = 1, most = 1;  // nodes; most 0: nobody knows yet
  std::vector<LayoutNode> nodes{};
  // "engine", "ray", "job.yaml:2: backend.type".
  std::vector<Setting> facts{};
};

// A job of which this process would be an agent: of one node, or of several that others start.
JobLayout layout_here(const Plan& plan, const Host& host);
JobLayout layout_on_hosts(const launcher::PlacementRequest& request, const Options& options);
// `placed`: what the engine would give now.
JobLayout layout_on_cluster(const ClusterRequest& request, const launcher::ShimPlaced& placed, const Options& options);
// `part`: the workers of each node, if that is known.
JobLayout layout_of_step(const Options& options, const Host& host, std::optional<int> part);

std::string layout_text(const JobLayout& layout);
std::string layout_json(const JobLayout& layout);

}  // namespace dtrain::cli
