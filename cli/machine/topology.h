#pragma once
// The facts of this machine that --numa-binding needs. Nothing here runs without that flag.
#include <string>
#include <vector>

#include "cli/machine/numa.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

// Every logical CPU, from hwloc (libhwloc.so.15, loaded when this is called), which also takes the machine described by
// HWLOC_XMLFILE or HWLOC_SYNTHETIC. Errors: the library is missing, or describes a machine that is not this one.
Result<std::vector<CpuFacts>> read_topology();

// The same, but only what this process may run on.
Result<std::vector<CpuFacts>> read_usable_topology();

// The NUMA node next to a PCI device ("0000:3b:00.0"); 0 where the kernel knows of none.
int numa_node_of_pci(const std::string& bus_id);

}  // namespace dtrain::cli
