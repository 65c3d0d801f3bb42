#include "launcher/guard/guarded_workers.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "launcher/process/sweep.h"

namespace dtrain::launcher {

namespace {

void signal_pidfd(const UniqueFd& pidfd, int signal) {
  ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0);
}

}  // namespace

std::vector<pid_t> GuardedWorkers::pids() const {
  std::vector<pid_t> pids;
  for (const Worker& w : workers_) pids.push_back(w.pid);
  return pids;
}

void GuardedWorkers::signal(int signal) const {
  for (const Worker& w : workers_) signal_pidfd(w.pidfd, signal);
}

void GuardedWorkers::kill() const {
  for (const Worker& w : workers_) {
    signal_pidfd(w.pidfd, SIGKILL);
    ::kill(-w.pid, SIGKILL);  // not reaped yet, so the number is the worker's
  }
}

void GuardedWorkers::kill_group_of_failed(int pidfd) const {
  for (const Worker& w : workers_) {
    siginfo_t info{};
    if (w.pidfd.get() != pidfd || ::waitid(P_PID, id_t(w.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0) continue;
    const bool failed = info.si_pid != 0 && !(info.si_code == CLD_EXITED && info.si_status == 0);
    if (failed) ::kill(-w.pid, SIGKILL);  // not reaped yet, so the number is the worker's
  }
}

std::optional<GuardedWorkers::Ended> GuardedWorkers::reap(int pidfd) {
  const auto w =
      std::find_if(workers_.begin(), workers_.end(), [&](const Worker& x) { return x.pidfd.get() == pidfd; });
  siginfo_t info{};
  if (w == workers_.end() || ::waitid(P_PID, id_t(w->pid), &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0) {
    return std::nullopt;
  }
  const int local_rank = w->local_rank;
  workers_.erase(w);
  return Ended{local_rank, info.si_pid, info.si_code, info.si_status};
}

std::optional<GuardedWorkers::Stopped> GuardedWorkers::stopped_by_terminal() const {
  for (const Worker& w : workers_) {
    siginfo_t info{};
    if (!w.attached || ::waitid(P_PID, id_t(w.pid), &info, WSTOPPED | WNOHANG) != 0 || info.si_pid == 0) continue;
    const int signal = info.si_status;
    if (signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU) return Stopped{w.local_rank, signal};
  }
  return std::nullopt;
}

bool GuardedWorkers::reap_orphans(DeadWorkers workers) {
  for (int n = 0; n < kReapedInARow; ++n) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return false;
    const auto is_it = [&](const Worker& w) { return w.pid == info.si_pid; };
    const auto worker = std::find_if(workers_.begin(), workers_.end(), is_it);
    if (worker != workers_.end() && workers == DeadWorkers::wait_for_their_turn) return false;
    if (worker != workers_.end()) workers_.erase(worker);
    ::waitid(P_PID, id_t(info.si_pid), &info, WEXITED | WNOHANG);
  }
  return true;
}

}  // namespace dtrain::launcher
