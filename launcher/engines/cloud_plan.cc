// Reads and judges the variables of clouds' runners.
#include "launcher/engines/cloud_plan.h"

#include <fmt/format.h>

#include <climits>

#include "rendezvous/base/printable.h"

namespace dtrain::launcher {
namespace {

struct Runner {
  const char* name;
  const char *nodes, *rank, *address, *id;
};

// SkyPilot lists the addresses of all nodes, one on a line, node 0's first. dstack names node 0's.
constexpr Runner kRunners[] = {
    {"SkyPilot", "SKYPILOT_NUM_NODES", "SKYPILOT_NODE_RANK", "SKYPILOT_NODE_IPS", "SKYPILOT_TASK_ID"},
    {"dstack", "DSTACK_NODES_NUM", "DSTACK_NODE_RANK", "DSTACK_MASTER_NODE_IP", "DSTACK_RUN_NAME"},
};

constexpr std::uint32_t kMostNodes = 65536;

}  // namespace

Result<std::optional<CloudPlace>> cloud_place(const Variables& env) {
  if (env.contains("TORCHELASTIC_RUN_ID")) return {std::nullopt};
  for (const Runner& each : kRunners) {
    if (!env.contains(each.nodes) || !env.contains(each.rank)) continue;
    const auto nodes = number(env, each.nodes), rank = number(env, each.rank);
    const std::string all = variable(env, each.address), address = all.substr(0, all.find_first_of(" \n"));
    if (!nodes || *nodes < 1 || *nodes > kMostNodes || !rank || *rank >= *nodes || (*nodes > 1 && address.empty()))
      return Error{ErrorKind::usage,
                   fmt::format("{}: {} is '{}', {} is '{}' and {} begins with '{}', which contradict each other; to "
                               "ignore them use --standalone, or say where the nodes meet with --nnodes, --node-rank "
                               "and --rdzv-endpoint",
                               each.name, each.nodes, printable(variable(env, each.nodes)), each.rank,
                               printable(variable(env, each.rank)), each.address, printable(address))};
    return {CloudPlace{.runner = each.name,
                       .origin = each.nodes,
                       .rank_origin = each.rank,
                       .address_origin = each.address,
                       .id_origin = each.id,
                       .nodes = static_cast<int>(*nodes),
                       .node_rank = static_cast<int>(*rank),
                       .address = address,
                       .id = variable(env, each.id)}};
  }
  return {std::nullopt};
}

std::optional<IndexedPod> indexed_pod(const Variables& env, const std::string& name) {
  const auto index = number(env, IndexedPod::kOrigin);
  if (env.contains("TORCHELASTIC_RUN_ID") || !index || *index > INT_MAX) return std::nullopt;
  IndexedPod pod{.index = static_cast<int>(*index)};
  const std::size_t dot = name.find('.');
  const std::string host = name.substr(0, dot), ending = fmt::format("-{}", *index);
  if (dot == std::string::npos || !host.ends_with(ending) || host.size() == ending.size()) return {pod};
  pod.job = host.substr(0, host.size() - ending.size());
  pod.first = pod.job + "-0" + name.substr(dot);
  return {pod};
}

}  // namespace dtrain::launcher
