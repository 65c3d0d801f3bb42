#pragma once
// Where driver_gpus() gets its answers. For gpus.cc and its tests alone.
#include <string>
#include <vector>

#include "cli/gpus/gpus.h"

namespace dtrain::cli {

// Load libnvidia-ml.so.1 and write what it says to `fd`, in the lines that parse_nvml() reads; nothing if there is no
// such library. May hang or crash with the library.
void tell_nvml(int fd);
GpuInventory parse_nvml(const std::string& text);

// The folder has a folder for each GPU, named by its place on the PCI bus.
GpuInventory nvidia_in_proc(const std::string& folder);
// The folder has a folder for each node of AMD's topology, GPUs and processors.
GpuInventory amd_in_topology(const std::string& folder);

// Names in a folder without those that start with a dot, sorted.
std::vector<std::string> names_in(const std::string& folder);

}  // namespace dtrain::cli
