#pragma once
// What /proc and /sys say about this machine, for `dtrain env` and `dtrain doctor`.
#include <optional>
#include <string>
#include <vector>

namespace dtrain::cli {

// "1.5 GiB", "64 MiB"
std::string size_text(double bytes);

// Cores and bytes that the cgroups above this process leave to it: the least of each level's. None: no limit.
struct CgroupLimits {
  std::string folder;  // of this process, below the mount; empty: no cgroup v2
  std::optional<double> cores;
  std::optional<double> bytes;
};
CgroupLimits cgroup_limits();

// "max 100000" and "150000 100000" of cpu.max, "max" and "1073741824" of memory.max; pure.
std::optional<double> parse_cpu_max(const std::string& text);
std::optional<double> parse_memory_max(const std::string& text);

// The process that listens on this TCP port, as "python3 (1234)"; "a process of another user" if it cannot be seen;
// empty if nobody listens.
std::string who_listens(int port);

// Inodes of the sockets that listen on `port`, out of the text of /proc/net/tcp or tcp6; pure.
std::vector<std::string> listening_inodes(const std::string& table, int port);

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15 ..." -> "550.54.15"; empty: no NVIDIA driver.
std::string nvidia_driver_version();
// Names of the GPUs, as "NVIDIA H200", from /proc/driver/nvidia; empty: none, or not told.
std::vector<std::string> nvidia_gpu_names();

}  // namespace dtrain::cli
