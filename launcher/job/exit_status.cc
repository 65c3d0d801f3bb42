#include "launcher/job/exit_status.h"

#include <fmt/core.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "launcher/job/worker_env.h"
#include "rendezvous/base/signal_name.h"

namespace dtrain::launcher {

int exit_code_of(const ExitStatus& status) {
  switch (status.kind) {
    case ExitStatus::Kind::exited:
      return status.code;
    case ExitStatus::Kind::signaled:
      return 128 + status.code;
    case ExitStatus::Kind::not_started:
      break;
  }
  if (status.step != SpawnStep::exec) return 125;
  return status.code == ENOENT ? 127 : 126;
}

int python_exit_code(const ExitStatus& status) {
  if (status.kind == ExitStatus::Kind::signaled) return -status.code;
  if (status.kind == ExitStatus::Kind::exited) return status.code;
  return status.step == SpawnStep::exec ? exit_code_of(status) : 1;
}

std::string describe(const ExitStatus& status) {
  switch (status.kind) {
    case ExitStatus::Kind::exited:
      return fmt::format("exit code {}", status.code);
    case ExitStatus::Kind::signaled: {
      std::string name = signal_name(status.code);
      std::string text = fmt::format("signal {}", status.code);
      if (name != text) text += " (" + name + ")";
      return status.core ? text + ", core dumped" : text;
    }
    case ExitStatus::Kind::not_started:
      break;
  }
  if (status.step == SpawnStep::none) return "not started";
  // The number of the descriptor is beyond the limit.
  if (status.step == SpawnStep::state && status.code == EBADF)
    return fmt::format("not started: {} has the number {}, and `ulimit -n` must be {} or more", step_name(status.step),
                       kStateFd, kStateFd + 1);
  return fmt::format("not started: {}: {}", step_name(status.step), std::strerror(status.code));
}

std::string signal_name(int signal) {
  if (const char* abbreviation = signal_abbreviation(signal)) return std::string("SIG") + abbreviation;
  if (signal >= SIGRTMIN && signal <= SIGRTMAX) return fmt::format("SIGRTMIN+{}", signal - SIGRTMIN);
  return fmt::format("signal {}", signal);
}

const char* step_name(SpawnStep step) {
  switch (step) {
    case SpawnStep::none:
      return "none";
    case SpawnStep::clone:
      return "clone";
    case SpawnStep::session:
      return "session";
    case SpawnStep::cgroup:
      return "cgroup";
    case SpawnStep::death_signal:
      return "death signal";
    case SpawnStep::affinity:
      return "affinity";
    case SpawnStep::stdio:
      return "stdio";
    case SpawnStep::state:
      return "the descriptor of its state";
    case SpawnStep::working_directory:
      return "working directory";
    case SpawnStep::exec:
      return "exec";
    case SpawnStep::watch:
      return "watch";
  }
  return "unknown";
}

}  // namespace dtrain::launcher
