#pragma once
// Sets of logical CPUs, by the kernel's numbers.
#include <string>
#include <vector>

namespace dtrain::launcher {

using CpuSet = std::vector<int>;  // ascending, each once

// "0-3,8", as in /sys; empty for none.
std::string cpu_ranges(const CpuSet& cpus);

// Those that this process may run on (sched_getaffinity).
CpuSet allowed_cpus();

}  // namespace dtrain::launcher
