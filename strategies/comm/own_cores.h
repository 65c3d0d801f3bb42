#pragma once
// How much of its machine this process may use.
#include <functional>
#include <string>

namespace dtrain {

// The cores that this thread may run on, which need not be its process's: a mask, as the kernel writes it
// ("ff,ffffffff"). Empty: unknown.
std::string own_cores();

// What a file says; empty where there is none.
using ReadFile = std::function<std::string(const std::string& path)>;
std::string text_of_file(const std::string& path);

// How many cores' time this process may take together with all others of a cgroup: the least of those that it is in, in
// whole cores, and no less than 1. 0: as much as there is. Of cgroup v2 (cpu.max) and v1 (cpu.cfs_quota_us), where
// distributions and container runtimes mount them.
struct CoreQuota {
  int cores = 0;
  std::string cgroup{};  // its path, as this process's container sees it
};
// Pure.
CoreQuota core_quota(const ReadFile& read);

}  // namespace dtrain
