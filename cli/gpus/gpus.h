#pragma once
// GPUs of this machine, and those of them that a program started here would use, without CUDA or ROCm.
#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace dtrain::cli {

// One part of an NVIDIA GPU in MIG mode.
struct MigInstance {
  std::string uuid;  // "MIG-…"
  int gpu_instance = -1;
  int compute_instance = -1;
};

struct Gpu {
  std::string uuid;        // "GPU-…", or "MIG-…" where it stands for one instance; empty: unknown
  std::string pci_bus_id;  // as in /sys/bus/pci/devices, "0000:3b:00.0"; empty: unknown
  bool mig = false;        // in MIG mode: only its instances can be used
  std::vector<MigInstance> instances = {};
};

struct GpuInventory {
  enum class Maker { nvidia, amd } maker = Maker::nvidia;
  std::vector<Gpu> gpus;  // in the driver's order, which is that of the PCI bus
  std::string problem;    // a driver is there but does not say what it has; empty: `gpus` is all there is
};

// What the driver reports. NVIDIA: libnvidia-ml.so.1, else /proc/driver/nvidia/gpus; AMD: the kernel's topology. The
// library is loaded in a child process, so that neither its memory, its threads nor a crash is ours; one that does not
// answer in `patience` is a problem. Takes up to seconds, so not for every start. Call before threads exist: it forks.
GpuInventory driver_gpus(std::chrono::milliseconds patience = std::chrono::seconds(20));

// The same from /proc and /sys alone, in microseconds: no MIG instances, and perhaps no UUIDs.
GpuInventory listed_gpus();

// The GPUs that the environment leaves to a process, in the order in which it numbers them. CUDA's rules: an entry of
// CUDA_VISIBLE_DEVICES is an index, a UUID or its beginning, or a MIG instance; the first that fits nothing or fits
// several ends the list, and one that occurs twice empties it. HIP: ROCR_VISIBLE_DEVICES, then HIP_VISIBLE_DEVICES or
// CUDA_VISIBLE_DEVICES among those. A GPU in MIG mode is replaced by the instance that is meant, or by its first.
// With a `problem` and no GPUs known, an entry is taken at its word. Pure.
std::vector<Gpu> visible_gpus(const GpuInventory& inventory, const std::map<std::string, std::string>& env);

// How many of the visible ones one process can use: all, but of MIG instances only one.
int usable_gpus(const std::vector<Gpu>& visible);

}  // namespace dtrain::cli
