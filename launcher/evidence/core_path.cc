#include "launcher/evidence/core_path.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "launcher/base/small_file.h"

namespace dtrain::launcher {
namespace {

constexpr size_t kCommLimit = 15;  // TASK_COMM_LEN without the final NUL

std::string expand_code(char code, const DeadProcess& process) {
  switch (code) {
    case '%':
      return "%";
    case 'p':
    case 'P':
      return std::to_string(process.pid);
    case 's':
      return std::to_string(process.signal);
    case 'h':
      return process.hostname;
    case 'e':
      return process.program.substr(0, kCommLimit);
    default:
      return "*";
  }
}

}  // namespace

std::string expand_core_pattern(std::string_view pattern, bool uses_pid, const DeadProcess& process) {
  while (pattern.ends_with('\n')) pattern.remove_suffix(1);
  if (pattern.empty()) return "";
  if (pattern.starts_with('|')) {
    std::string program(pattern.substr(1, pattern.find(' ') - 1));
    bool systemd = program.find("systemd-coredump") != std::string::npos;
    return fmt::format("handed to {}{}", program,
                       systemd ? fmt::format(", see: coredumpctl info {}", process.pid) : "");
  }
  bool names_pid = pattern.find("%p") != std::string_view::npos;
  std::string path;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      path += pattern[i];
    } else if (++i < pattern.size()) {
      path += expand_code(pattern[i], process);
    }
  }
  if (uses_pid && !names_pid) path += "." + std::to_string(process.pid);
  return path.starts_with('/') ? path : process.working_directory + "/" + path;
}

std::string find_core(const DeadProcess& process) {
  bool uses_pid = read_small_file("/proc/sys/kernel/core_uses_pid").starts_with('1');
  std::string path = expand_core_pattern(read_small_file("/proc/sys/kernel/core_pattern"), uses_pid, process);
  bool certain = path.starts_with('/') && path.find('*') == std::string::npos;
  return certain && ::access(path.c_str(), F_OK) != 0 ? "" : path;
}

}  // namespace dtrain::launcher
