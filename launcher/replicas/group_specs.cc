#include "launcher/replicas/group_specs.h"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <utility>

namespace dtrain::launcher {
namespace {

// The part of a list that has an element for each worker of the node.
template <class T>
std::vector<T> part_of(const std::vector<T>& all, int at, int size) {
  const std::size_t from = static_cast<std::size_t>(at) * static_cast<std::size_t>(size);
  if (all.size() < from + static_cast<std::size_t>(size)) return {};
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(from);
  return {begin, begin + size};
}

// "out/report.json" becomes "out/report.g1.json".
std::string path_of_group(const std::string& path, int group) {
  if (path.empty()) return path;
  const std::size_t name = path.rfind('/') == path.npos ? 0 : path.rfind('/') + 1;
  std::size_t dot = path.rfind('.');
  if (dot == path.npos || dot <= name) dot = path.size();
  return fmt::format("{}.g{}{}", path.substr(0, dot), group, path.substr(dot));
}

JobSpec spec_of_group(const JobSpec& node, int at) {
  JobSpec spec = node;
  spec.replicas.at = at;
  const int group = spec.replicas.group();
  spec.run_id = fmt::format("{}-g{}", node.run_id, group);
  spec.lead = fmt::format("group {}: ", group);
  spec.console.group = fmt::format("g{}:", group);
  spec.cpus = part_of(node.cpus, at, node.nproc_per_node);
  spec.own_devices.by_local_rank = part_of(node.own_devices.by_local_rank, at, node.nproc_per_node);
  // Whoever starts the groups hears of these, and passes them on.
  spec.planned_signals.clear();
  spec.ends_with = -1;
  spec.started_from.clear();  // they wait for the daemon's SIGTERM
  spec.report_path = path_of_group(node.report_path, group);
  if (spec.state_files) spec.state_files->key += fmt::format(".g{}", group);
  if (node.nodes.port != 0) spec.nodes.port = static_cast<std::uint16_t>(node.nodes.port + at);
  // torchft's names.
  spec.extra_env.emplace_back("REPLICA_GROUP_ID", std::to_string(group));
  spec.extra_env.emplace_back("NUM_REPLICA_GROUPS", std::to_string(node.replicas.groups));
  if (static_cast<std::size_t>(at) < node.replicas.devices.size())
    spec.extra_env.emplace_back(node.replicas.hip ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES",
                                node.replicas.devices[static_cast<std::size_t>(at)]);
  return spec;
}

}  // namespace

std::vector<JobSpec> group_specs(const JobSpec& node) {
  std::vector<JobSpec> specs;
  specs.reserve(static_cast<std::size_t>(node.replicas.here));
  for (int at = 0; at < node.replicas.here; ++at) specs.push_back(spec_of_group(node, at));
  return specs;
}

}  // namespace dtrain::launcher
