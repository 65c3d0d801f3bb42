#include "launcher/process/proc_info.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "launcher/base/small_file.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

namespace {

// The value of "Name:\tvalue" in a /proc text; empty if it is not there.
std::string field(const std::string& text, const std::string& name) {
  const auto at = text.rfind("\n" + name + ":", std::string::npos);
  if (at == std::string::npos) return {};
  const auto from = text.find_first_not_of(" \t", at + name.size() + 2);
  return text.substr(from, text.find('\n', from) - from);
}

}  // namespace

pid_t pid_of_pidfd(int pidfd) {
  const std::string value = field(read_small_file(fmt::format("/proc/self/fdinfo/{}", pidfd)), "Pid");
  return std::max(0, pid_t(std::strtol(value.c_str(), nullptr, 10)));  // the kernel says -1 when it is gone
}

std::optional<ProcessLook> look_at_process(pid_t pid) {
  const std::string text = read_small_file(fmt::format("/proc/{}/stat", pid));
  const auto name_ends = text.rfind(") ");  // a name may hold anything
  if (name_ends == std::string::npos) return std::nullopt;
  ProcessLook look;
  look.state = text[name_ends + 2];
  const char* at = text.c_str() + name_ends + 3;
  char* rest = nullptr;
  constexpr int kFieldsBetween = 10;  // from the state to utime, see proc(5)
  for (int i = 0; i < kFieldsBetween; ++i, at = rest) std::strtoll(at, &rest, 10);
  const long long user = std::strtoll(at, &rest, 10);
  const long long system = std::strtoll(rest, &rest, 10);
  look.cpu = std::chrono::milliseconds((user + system) * 1000 / ::sysconf(_SC_CLK_TCK));
  return look;
}

std::string describe_stuck_process(pid_t pid) {
  const std::string status = "\n" + read_small_file(fmt::format("/proc/{}/status", pid));
  const std::string wchan = read_small_file(fmt::format("/proc/{}/wchan", pid));
  return fmt::format("pid {} ({}) survived SIGKILL: state {}{}", pid, field(status, "Name"), field(status, "State"),
                     wchan.empty() || wchan == "0" ? "" : ", waiting in " + wchan);
}

std::uint64_t resident_bytes() {
  const std::string resident = field("\n" + read_small_file("/proc/self/status"), "VmRSS");  // in kB
  return std::strtoull(resident.c_str(), nullptr, 10) << 10;
}

bool wait_for_exit(pid_t child, std::chrono::milliseconds limit) {
  UniqueFd pidfd(int(::syscall(SYS_pidfd_open, child, 0)));
  pollfd fd{pidfd.get(), POLLIN, 0};
  if (pidfd && ::poll(&fd, 1, int(limit.count())) <= 0) return false;
  return ::waitpid(child, nullptr, WNOHANG) != 0;
}

std::string file_name_safe(const std::string& text) {
  std::string safe = text.substr(0, 100);
  for (char& c : safe) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '-') c = '_';
  }
  return safe;
}

}  // namespace dtrain::launcher
