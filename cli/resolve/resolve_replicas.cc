// --replica-groups: the workers of this node as several jobs.
// Tested by test/unit/cli/resolve/resolve_replicas_test.cc.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/options/take_value.h"
#include "cli/resolve/resolve_parts.h"
#include "rendezvous/base/counted.h"

namespace dtrain::cli {
namespace {

constexpr int kHighestPort = 65535;

Error blamed(const Given& given, const std::string& why) {
  return given.options.blame(FlagId::replica_groups, usage_error(why));
}

std::string no_port(int first, int others) {
  return fmt::format("each group has a port of its own, and above {} there are not {} more", first, others);
}

// What says something else of who goes on after a failure, or is one thing that several jobs cannot share. Empty: all
// is well.
std::string contradiction(const Given& given, const launcher::JobSpec& spec) {
  if (spec.survivors > 0)
    return "a failure restarts its whole group, and with --survivors the others of the group go on; leave out one of "
           "the two";
  const auto copies = given.options.on(FlagId::copy_state);  // an error is told by resolve_state()
  if (copies && *copies)
    return "a copy would be on another node, and a group is on one node; leave out --copy-state (--keep-state works)";
  if (given.options.given(FlagId::attach)) return "there is one terminal for several jobs; leave out --attach";
  const std::string& input = given.options.text(FlagId::stdin_mode);
  if (!input.empty() && input != "all" && input != "none")
    return fmt::format("each group has a rank {0} that would read standard input; give --stdin all or none",
                       printable(input));
  const int others = spec.replicas.here - 1;
  if (spec.nodes.port != 0 && spec.nodes.port + others > kHighestPort) return no_port(spec.nodes.port, others);
  return "";
}

// Nodes that have whole groups need not meet. Empty: they can have them.
std::string not_for_nodes(const launcher::NodesSpec& nodes, int groups) {
  if (nodes.real_master) return "each group has its store on its own node; leave out --master-addr real";
  if (nodes.min != nodes.max) return "the number of nodes must be one number, without a MIN:MAX (--nnodes)";
  if (nodes.node_rank < 0)
    return "which groups are on this node depends on its number: give --node-rank and --master-addr, or have an engine "
           "number the nodes (--hosts, srun, mpirun)";
  if (groups % nodes.max != 0)
    return fmt::format("{} cannot be divided among {} nodes: a group is on one node, and each node has as many",
                       counted(groups, "group"), nodes.max);
  return "";
}

// The first of the group's devices for its first worker, and so on, if there are enough: LOCAL_RANK begins with 0 in
// each group. So the workers of the node have its devices in their order, as without groups and for --numa-binding.
void give_devices(const Given& given, int workers, Plan& plan) {
  const auto& env = given.host.env;
  auto& replicas = plan.spec.replicas;
  GpuInventory found = given.host.listed_gpus();
  if (visible_gpus(found, env).empty()) found = given.host.gpus();
  const std::size_t count = visible_gpus(found, env).size(), parts = static_cast<std::size_t>(replicas.here);
  const std::size_t each = static_cast<std::size_t>(workers);
  if (count == 0) return;
  if (count < parts * each) {
    plan.notes.push_back(fmt::format("--replica-groups: each group sees {}: the {} workers of all groups are more",
                                     count == 1 ? "the one GPU" : fmt::format("all {} GPUs", count), parts * each));
    return;
  }
  const bool cuda = !given.host.variable("CUDA_VISIBLE_DEVICES").empty();
  const bool hip = !given.host.variable("HIP_VISIBLE_DEVICES").empty();
  replicas.hip = hip || (found.maker == GpuInventory::Maker::amd && !cuda);
  const std::string list = given.host.variable(replicas.hip ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES");
  std::vector<std::string> names;
  if (!list.empty()) names = split(list, ',');
  for (std::size_t gpu = names.size(); gpu < count; ++gpu) names.push_back(std::to_string(gpu));
  for (std::size_t group = 0; group < parts; ++group) {
    std::string part;
    for (std::size_t gpu = group * each; gpu < (group + 1) * each; ++gpu)
      part += (part.empty() ? "" : ",") + trimmed(names[gpu]);
    replicas.devices.push_back(std::move(part));
  }
}

}  // namespace

int workers_of_node(const launcher::JobSpec& spec) { return spec.nproc_per_node * std::max(1, spec.replicas.here); }

Result<void> resolve_groups(const Given& given, Plan& plan) {
  launcher::NodesSpec& nodes = plan.spec.nodes;
  auto& replicas = plan.spec.replicas;
  if (auto done = take_number(given.options, FlagId::replica_groups, kMostWorkersOfNode, replicas.groups); !done)
    return done;
  replicas.here = replicas.groups;
  if (!nodes.several() || replicas.groups == 0) return {};
  if (const std::string why = not_for_nodes(nodes, replicas.groups); !why.empty()) return blamed(given, why);
  if (!nodes.topology.empty())
    plan.notes.emplace_back("--topology is of no use with --replica-groups: the ranks of a group are on one node");
  replicas.here = replicas.groups / nodes.max;
  replicas.first = replicas.here * nodes.node_rank;
  const int port = given.options.given(FlagId::master_port) && nodes.port != 0 ? nodes.port + replicas.first : 0;
  if (port > kHighestPort) return blamed(given, no_port(nodes.port, replicas.groups - 1));
  nodes = {};
  nodes.port = static_cast<std::uint16_t>(port);
  plan.awaited_host.clear();
  return {};
}

Result<void> resolve_replicas(const Given& given, Plan& plan) {
  launcher::JobSpec& spec = plan.spec;
  const int groups = spec.replicas.here;
  if (groups == 0) return {};
  if (const std::string why = contradiction(given, spec); !why.empty()) return blamed(given, why);
  if (spec.nproc_per_node % groups != 0)
    return blamed(given, fmt::format("{} of this node cannot be divided into {} equal groups; --nproc counts the "
                                     "workers of all groups of the node",
                                     counted(spec.nproc_per_node, "worker"), groups));
  spec.nproc_per_node /= groups;
  if (spec.own_devices.by_local_rank.empty() && given.options.text(FlagId::use_gpu) != "no")
    give_devices(given, spec.nproc_per_node, plan);
  return {};
}

}  // namespace dtrain::cli
