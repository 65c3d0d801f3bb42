// See own_cores.h.
#include "strategies/comm/bootstrap/own_cores.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>

namespace dtrain {
namespace {

// The quota in cores; 0: no limit. `text`: "QUOTA PERIOD", in microseconds; QUOTA may be "max" or -1.
double parse_quota(const std::string& text) {
  std::istringstream words(text);
  double quota = 0, period = 0;
  return words >> quota >> period && quota > 0 && period > 0 ? quota / period : 0;
}

bool names_cpu(const std::string& controllers) { return ("," + controllers + ",").find(",cpu,") != std::string::npos; }

}  // namespace

std::string own_cores() {
  constexpr std::string_view kName = "Cpus_allowed:\t";
  std::ifstream status("/proc/thread-self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(kName, 0) == 0) return line.substr(kName.size());
  }
  return "";
}

std::string text_of_file(const std::string& path) {
  const std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

CoreQuota core_quota(const ReadFile& read) {
  double least = 0;
  std::string whose;
  const auto take = [&](const std::string& cgroup, const std::string& text) {
    const double quota = parse_quota(text);
    if (quota <= 0 || (least > 0 && quota >= least)) return;
    least = quota;
    whose = cgroup;
  };
  std::istringstream cgroups(read("/proc/self/cgroup"));  // lines of NUMBER:CONTROLLERS:PATH
  std::string number, controllers, path;
  while (std::getline(cgroups, number, ':') && std::getline(cgroups, controllers, ':') && std::getline(cgroups, path)) {
    const bool unified = controllers.empty();
    if (!unified && !names_cpu(controllers)) continue;
    // In a container the path may be a path of the host, which is not there; the container's own group is at the top.
    for (std::string level = path == "/" ? "" : path;; level.resize(level.rfind('/'))) {
      const std::string folder = (unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu") + level;
      const auto in_folder = [&](const char* name) { return read(folder + name); };
      take(folder, unified ? in_folder("/cpu.max") : in_folder("/cpu.cfs_quota_us") + in_folder("/cpu.cfs_period_us"));
      if (level.rfind('/') == std::string::npos) break;
    }
  }
  constexpr double kMost = 1 << 20;
  return {least == 0 ? 0 : static_cast<int>(std::clamp(least, 1.0, kMost)), whose};
}

}  // namespace dtrain
