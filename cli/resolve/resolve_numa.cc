// --numa-binding: which CPUs each worker is bound to.
// Tested by test/unit/cli/resolve/resolve_test.cc.
#include <fmt/format.h>

#include "cli/base/usage_error.h"
#include "cli/options/take_value.h"
#include "cli/resolve/resolve_parts.h"

namespace dtrain::cli {
namespace {

// The NUMA nodes of the GPUs that this job sees. None visible: torchrun refuses; dtrain lets the workers take the nodes
// of the machine in turn.
Result<std::vector<int>> nodes_of_devices(const Given& given, const std::vector<CpuFacts>& cpus, int workers,
                                          Plan& plan) {
  auto gpus = visible_gpus(given.host.listed_gpus(), given.host.env);
  if (gpus.empty()) gpus = visible_gpus(given.host.gpus(), given.host.env);
  if (gpus.empty()) {
    if (given.raw.as_torchrun)
      return usage_error("no GPU is visible to bind workers to (dtrain run binds without GPUs too)");
    plan.notes.push_back("--numa-binding: no GPU is visible; the workers take the NUMA nodes in turn");
    return nodes_in_turn(cpus, workers);
  }
  if (gpus.size() < static_cast<std::size_t>(workers))
    return usage_error(fmt::format("{} workers, but {} GPU{} visible: each worker is bound to the place of its own",
                                   workers, gpus.size(), gpus.size() == 1 ? " is" : "s are"));
  std::vector<int> nodes;
  for (const Gpu& gpu : gpus) {
    if (gpu.pci_bus_id.empty()) return usage_error("the driver does not say where on the PCI bus the GPUs are");
    nodes.push_back(given.host.numa_node_of_pci(gpu.pci_bus_id));
  }
  return nodes;
}

}  // namespace

Result<void> resolve_numa(const Given& given, Plan& plan) {
  if (given.options.text(FlagId::numa_binding).empty()) return {};
  NumaMode mode = NumaMode::node;
  auto known = take_choice(given.options, FlagId::numa_binding, mode,
                           {{"node", NumaMode::node},
                            {"socket", NumaMode::socket},
                            {"exclusive", NumaMode::exclusive},
                            {"core-complex", NumaMode::core_complex}});
  if (!known) return known;
  auto cpus = given.host.topology();
  if (!cpus) return cpus.error();
  const int workers = workers_of_node(plan.spec);
  auto nodes = nodes_of_devices(given, *cpus, workers, plan);
  if (!nodes) return given.options.blame(FlagId::numa_binding, nodes.error());
  auto sets = bind_workers(*cpus, *nodes, workers, mode);
  if (!sets) return given.options.blame(FlagId::numa_binding, sets.error());
  plan.spec.cpus = std::move(*sets);
  return {};
}

}  // namespace dtrain::cli
