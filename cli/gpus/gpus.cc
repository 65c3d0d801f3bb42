// Asks the drivers: NVML in a child process, the folders of /proc and /sys directly.
#include "cli/gpus/gpus.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cli/children/read_until.h"
#include "cli/gpus/gpu_sources.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kLongestListing = std::size_t{1} << 20;  // of what NVML tells

GpuInventory ask_nvml(std::chrono::milliseconds patience) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {{}, {}, "NVML was not asked: no pipe"};
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  pid_t child = fork();
  if (child < 0) return {{}, {}, "NVML was not asked: no process"};
  if (child == 0) {
    rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    read_end.reset();
    tell_nvml(write_end.get());
    _exit(0);
  }
  write_end.reset();
  PipeText told = read_until(read_end.get(), Clock::now() + patience, kLongestListing);
  if (!told.complete) kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (!told.complete) return {{}, {}, "NVML does not answer"};
  if (WIFSIGNALED(status)) return {{}, {}, std::string("NVML crashed (") + strsignal(WTERMSIG(status)) + ")"};
  return parse_nvml(told.text);
}

bool exists(const char* path) { return access(path, F_OK) == 0; }

}  // namespace

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) return names;
  while (const dirent* entry = readdir(dir))
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

GpuInventory listed_gpus() {
  GpuInventory nvidia = nvidia_in_proc("/proc/driver/nvidia/gpus");
  if (!nvidia.gpus.empty()) return nvidia;
  GpuInventory amd = amd_in_topology("/sys/class/kfd/kfd/topology/nodes");
  if (!amd.gpus.empty()) return amd;
  if (exists("/dev/nvidiactl") || exists("/dev/dxg")) nvidia.problem = "the NVIDIA driver does not list its GPUs";
  return nvidia;
}

GpuInventory driver_gpus(std::chrono::milliseconds patience) {
  GpuInventory asked = ask_nvml(patience);
  if (!asked.gpus.empty()) return asked;
  GpuInventory listed = listed_gpus();
  if (listed.problem.empty()) listed.problem = asked.problem;
  return listed;
}

}  // namespace dtrain::cli
