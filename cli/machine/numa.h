#pragma once
// --numa-binding: which CPUs each worker may run on, by torchrun's rules. Pure: facts come in (topology.h), sets go
// out.
//  - node:          the CPUs of the NUMA node that the worker's GPU is next to
//  - socket:        those of all nodes in the same socket
//  - exclusive:     a share of the node's physical cores of its own; what does not divide evenly goes to the first GPUs
//  - core-complex:  the CPUs that share one last-level cache in that node; the GPUs there take turns, largest first
#include <vector>

#include "launcher/base/cpu_set.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

// A logical CPU that this process may use, and what it belongs to.
struct CpuFacts {
  int cpu = 0;
  int core = 0;     // the lowest CPU of its physical core
  int cache = -1;   // the lowest CPU that shares its last-level cache; -1: no cache known
  int node = 0;     // NUMA node
  int package = 0;  // socket
};

enum class NumaMode { node, socket, exclusive, core_complex };

// One set for each of the first `workers` devices. node_of_device: the NUMA node of every device of this machine that
// a worker may use, in their order; at least `workers`. Errors: a node without a CPU for us, too few cores.
Result<std::vector<launcher::CpuSet>> bind_workers(const std::vector<CpuFacts>& cpus,
                                                   const std::vector<int>& node_of_device, int workers, NumaMode mode);

// Without GPUs: the NUMA nodes in turn, one for each worker.
std::vector<int> nodes_in_turn(const std::vector<CpuFacts>& cpus, int workers);

}  // namespace dtrain::cli
