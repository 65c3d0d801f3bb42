#pragma once
// Where the kernel put a core dump, as far as can be told from outside.
#include <string>
#include <string_view>

namespace dtrain::launcher {

struct DeadProcess {
  int pid = 0;
  int signal = 0;
  std::string program;            // its executable's file name
  std::string working_directory;  // of the process; where a relative pattern puts the file
  std::string hostname;
};

// Expand /proc/sys/kernel/core_pattern for a process: an absolute path, or for a pattern that pipes to a program a
// phrase that names it ("handed to /usr/lib/systemd/systemd-coredump, see coredumpctl"). Empty for an empty pattern.
// %-codes that cannot be known afterwards (%t, %u, ...) become "*". uses_pid: /proc/sys/kernel/core_uses_pid.
std::string expand_core_pattern(std::string_view pattern, bool uses_pid, const DeadProcess& process);

// The same with the machine's own pattern. A path without "*" is returned only if the file exists.
std::string find_core(const DeadProcess& process);

}  // namespace dtrain::launcher
