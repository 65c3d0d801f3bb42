#include "launcher/base/cpu_set.h"

#include <fmt/core.h>
#include <sched.h>

namespace dtrain::launcher {

std::string cpu_ranges(const CpuSet& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += last == i ? std::to_string(cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[last]);
    i = last + 1;
  }
  return text;
}

// A fixed cpu_set_t ends at 1024; larger machines need a larger set.
CpuSet allowed_cpus(pid_t process) {
  CpuSet cpus;
  for (int most = 1024; most <= 1 << 18 && cpus.empty(); most *= 4) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(most));
    if (set == nullptr) break;
    const size_t size = CPU_ALLOC_SIZE(static_cast<size_t>(most));
    if (::sched_getaffinity(process, size, set) == 0)
      for (int cpu = 0; cpu < most; ++cpu)
        if (CPU_ISSET_S(static_cast<size_t>(cpu), size, set)) cpus.push_back(cpu);
    CPU_FREE(set);
  }
  return cpus;
}

void allow_cpus(const CpuSet& cpus) {
  if (cpus.empty()) return;
  const auto most = static_cast<size_t>(cpus.back()) + 1;
  cpu_set_t* set = CPU_ALLOC(most);
  if (set == nullptr) return;
  const size_t size = CPU_ALLOC_SIZE(most);
  CPU_ZERO_S(size, set);
  for (const int cpu : cpus) CPU_SET_S(static_cast<size_t>(cpu), size, set);
  ::sched_setaffinity(0, size, set);
  CPU_FREE(set);
}

}  // namespace dtrain::launcher
