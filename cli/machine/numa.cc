#include "cli/machine/numa.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "cli/base/usage_error.h"
#include "rendezvous/base/counted.h"

namespace dtrain::cli {
namespace {

using launcher::CpuSet;

template <class Keep>
CpuSet cpus_where(const std::vector<CpuFacts>& cpus, Keep keep) {
  CpuSet out;
  for (const CpuFacts& facts : cpus)
    if (keep(facts)) out.push_back(facts.cpu);
  std::sort(out.begin(), out.end());
  return out;
}

CpuSet of_node(const std::vector<CpuFacts>& cpus, int node) {
  return cpus_where(cpus, [node](const CpuFacts& facts) { return facts.node == node; });
}

// The sets of CPUs in this node that have `key` in common, by the key.
std::map<int, CpuSet> groups(const std::vector<CpuFacts>& cpus, int node, int CpuFacts::*key) {
  std::map<int, CpuSet> out;
  for (const CpuFacts& facts : cpus)
    if (facts.node == node) out[facts.*key].push_back(facts.cpu);
  for (auto& [first, set] : out) std::sort(set.begin(), set.end());
  return out;
}

// A node belongs to the socket of its lowest CPU, and a socket has all CPUs of its nodes.
CpuSet of_socket(const std::vector<CpuFacts>& cpus, int node) {
  std::map<int, const CpuFacts*> lowest;
  for (const CpuFacts& facts : cpus) {
    const CpuFacts*& known = lowest[facts.node];
    if (known == nullptr || facts.cpu < known->cpu) known = &facts;
  }
  const int package = lowest.at(node)->package;
  return cpus_where(cpus, [&](const CpuFacts& facts) { return lowest.at(facts.node)->package == package; });
}

// `index`: the how manieth of `devices` on this node the worker has.
Result<CpuSet> exclusive(const std::vector<CpuFacts>& cpus, int node, std::size_t index, std::size_t devices) {
  const auto cores = groups(cpus, node, &CpuFacts::core);
  const std::size_t each = cores.size() / devices, extra = cores.size() % devices;
  if (each == 0)
    return usage_error(fmt::format("NUMA node {} has {} for {} workers or GPUs; use node or socket", node,
                                   counted(cores.size(), "physical core"), devices));
  const auto first = std::next(cores.begin(), std::ptrdiff_t(index * each + std::min(index, extra)));
  const auto last = std::next(first, std::ptrdiff_t(each + (index < extra ? 1 : 0)));
  CpuSet out;
  for (auto core = first; core != last; ++core) out.insert(out.end(), core->second.begin(), core->second.end());
  std::sort(out.begin(), out.end());
  return out;
}

CpuSet core_complex(const std::vector<CpuFacts>& cpus, int node, std::size_t index) {
  std::vector<CpuSet> complexes;
  for (auto& [first, set] : groups(cpus, node, &CpuFacts::cache)) complexes.push_back(set);
  std::stable_sort(complexes.begin(), complexes.end(),
                   [](const CpuSet& a, const CpuSet& b) { return a.size() > b.size(); });
  return complexes[index % complexes.size()];
}

}  // namespace

Result<std::vector<CpuSet>> bind_workers(const std::vector<CpuFacts>& cpus, const std::vector<int>& node_of_device,
                                         int workers, NumaMode mode) {
  std::vector<CpuSet> out;
  for (std::size_t i = 0; i < static_cast<std::size_t>(workers); ++i) {
    const int node = node_of_device.at(i);
    if (of_node(cpus, node).empty())
      return usage_error(
          fmt::format("local rank {} belongs to NUMA node {}, none of whose cores this process may use", i, node));
    const auto here = node_of_device.begin() + static_cast<std::ptrdiff_t>(i);
    const auto before = static_cast<std::size_t>(std::count(node_of_device.begin(), here, node));
    const auto all = static_cast<std::size_t>(std::count(node_of_device.begin(), node_of_device.end(), node));
    switch (mode) {
      case NumaMode::node:
        out.push_back(of_node(cpus, node));
        break;
      case NumaMode::socket:
        out.push_back(of_socket(cpus, node));
        break;
      case NumaMode::exclusive: {
        auto share = exclusive(cpus, node, before, all);
        if (!share) return share.error();
        out.push_back(std::move(*share));
        break;
      }
      case NumaMode::core_complex:
        out.push_back(core_complex(cpus, node, before));
        break;
    }
  }
  return out;
}

std::vector<int> nodes_in_turn(const std::vector<CpuFacts>& cpus, int workers) {
  std::set<int> known;
  for (const CpuFacts& facts : cpus) known.insert(facts.node);
  const std::vector<int> nodes(known.begin(), known.end());
  std::vector<int> out;
  for (std::size_t i = 0; i < static_cast<std::size_t>(workers) && !nodes.empty(); ++i)
    out.push_back(nodes[i % nodes.size()]);
  return out;
}

}  // namespace dtrain::cli
