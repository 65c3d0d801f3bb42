#pragma once
// Sets of logical CPUs, by the kernel's numbers.
#include <sys/types.h>

#include <string>
#include <vector>

namespace dtrain::launcher {

using CpuSet = std::vector<int>;  // ascending, each once

// "0-3,8", as in /sys; empty for none.
std::string cpu_ranges(const CpuSet& cpus);

// Those that a process may run on (sched_getaffinity); 0: this one. Empty if it is gone.
CpuSet allowed_cpus(pid_t process = 0);

// Lets this process, and what it starts, run on these. What cannot be had stays as it is.
void allow_cpus(const CpuSet& cpus);

}  // namespace dtrain::launcher
