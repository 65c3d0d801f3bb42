#pragma once
// How much of its machine this process may use.
#include <functional>
#include <string>

namespace dtrain {

// The cores that this thread may run on; those of its process may be others. A mask, as the kernel writes it
// ("ff,ffffffff"). Empty: the cores are not known.
std::string own_cores();

// The text of a file; empty if there is no such file.
using ReadFile = std::function<std::string(const std::string& path)>;
std::string text_of_file(const std::string& path);

// The CPU quota of this process: how many cores' time it may take together with all other processes of a cgroup. The
// least quota of the cgroups that the process is in, in whole cores, at least 1; 0: no limit. From cgroup v2 (cpu.max)
// and v1 (cpu.cfs_quota_us), where distributions and container runtimes mount them.
struct CoreQuota {
  int cores = 0;
  std::string cgroup{};  // the path of the cgroup with the quota, as this process's container sees it
};
// Pure: `read` reads the files.
CoreQuota core_quota(const ReadFile& read);

}  // namespace dtrain
