#include "launcher/guard.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <vector>

#include "launcher/cgroup.h"
#include "launcher/guard_protocol.h"
#include "launcher/spawn.h"
#include "launcher/sweep.h"

namespace dtrain::launcher {

namespace {

// While killing, look again this often for processes that a racing fork hid from the last sweep.
constexpr int kSweepAgainMs = 50;
// After the agent is gone: how long to wait for processes that SIGKILL does not end (state D).
constexpr auto kGiveUp = std::chrono::seconds(10);

class Guard {
 public:
  Guard(const GuardSettings& settings, UniqueFd agent) : settings_(settings), agent_(std::move(agent)) {
    sigset_t chld;
    ::sigemptyset(&chld);
    ::sigaddset(&chld, SIGCHLD);
    child_ended_.reset(::signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!settings_.cgroup_folder.empty()) cgroup_ = open_to_clone_into(settings_.cgroup_folder);
  }

  void run() {
    while (agent_ || !no_children()) {
      pollfd fds[2] = {{child_ended_.get(), POLLIN, 0}, {agent_.get(), POLLIN, 0}};
      ::poll(fds, 2, killing_ ? kSweepAgainMs : -1);
      if (fds[0].revents != 0) drain_signals();
      reap();
      if (agent_ && fds[1].revents != 0) read_agent();
      if (killing_) kill_all();
      report_if_empty();
      if (!agent_ && std::chrono::steady_clock::now() > give_up_at_) break;
    }
  }

 private:
  struct Worker {
    int local_rank;
    pid_t pid;
    UniqueFd pidfd;
  };

  void drain_signals() {
    signalfd_siginfo info;
    while (::read(child_ended_.get(), &info, sizeof info) == sizeof info) {
    }
  }

  void send(const GuardMessage& message, int fd = -1) {
    if (agent_ && send_guard_message(agent_.get(), message, &fd, fd >= 0 ? 1 : 0) != 0) agent_gone();
  }

  void read_agent() {
    ReceivedGuardMessage received;
    for (;;) {
      switch (receive_guard_message(agent_.get(), received)) {
        case Receive::again:
          return;
        case Receive::closed:
          agent_gone();
          return;
        case Receive::message:
          handle(received);
      }
      if (!agent_) return;
    }
  }

  void handle(ReceivedGuardMessage& received) {
    const GuardMessage& m = received.message;
    switch (m.op) {
      case GuardOp::begin_round:
        spawns_to_come_ = m.a;
        round_open_ = true;
        round_broken_ = killing_ = false;
        break;
      case GuardOp::spawn:
        start_worker(received);
        break;
      case GuardOp::signal_workers:
        for (const Worker& w : workers_) ::syscall(SYS_pidfd_send_signal, w.pidfd.get(), m.a, nullptr, 0);
        break;
      case GuardOp::signal_containment:
        signal_all(m.a);
        break;
      case GuardOp::kill:
        killing_ = true;
        break;
      default:
        break;
    }
  }

  void start_worker(ReceivedGuardMessage& received) {
    const int local_rank = received.message.local_rank;
    --spawns_to_come_;
    SpawnResult result{-1, UniqueFd(), SpawnStep::none, ECANCELED};
    ExecPayload payload;
    if (!round_broken_ && payload.map(received.fds[0].get())) {
      result = spawn({payload.argv(), payload.envp(), received.fds[1].get(), received.fds[2].get(),
                      received.fds[3].get(), cgroup_.get(), settings_.cgroup_procs_fd, settings_.nofile});
    }
    if (result.pid < 0) {
      round_broken_ = true;  // the round cannot succeed: start no more of it
      send({GuardOp::not_started, local_rank, int32_t(result.step), result.error});
      return;
    }
    const bool pidns = settings_.level == Containment::pidns;
    send({GuardOp::started, local_rank, 0, 0, pidns ? 0 : result.pid}, pidns ? result.pidfd.get() : -1);
    workers_.push_back({local_rank, result.pid, std::move(result.pidfd)});
  }

  // Groups first, at once; then what has left them. A stopped process acts on a signal only when continued.
  void signal_all(int signal) {
    std::vector<pid_t> groups;
    for (const Worker& w : workers_) {
      ::kill(-w.pid, signal);  // its leader is not reaped, so the number is still its own
      groups.push_back(w.pid);
    }
    signal_descendants(::getpid(), signal, groups);
    const bool ends = signal != SIGSTOP && signal != SIGCONT;
    if (ends) signal_all(SIGCONT);
  }

  void kill_all() {
    if (no_children()) {
      killing_ = false;
      return;
    }
    if (settings_.level == Containment::pidns) {
      ::kill(-1, SIGKILL);  // as init of the namespace: everything in it but ourselves
      return;
    }
    if (!settings_.cgroup_folder.empty()) kill_cgroup(settings_.cgroup_folder);
    cgroup_.reset();  // see open_to_clone_into()
    kill_descendants(::getpid());
  }

  void reap() {
    for (;;) {
      siginfo_t info{};
      if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0) return;
      const auto w =
          std::find_if(workers_.begin(), workers_.end(), [&](const Worker& x) { return x.pid == info.si_pid; });
      if (w == workers_.end()) continue;  // an orphan of a worker
      const int local_rank = w->local_rank;
      workers_.erase(w);
      send({GuardOp::exited, local_rank, info.si_code, info.si_status, info.si_pid});
    }
  }

  static bool no_children() {
    siginfo_t info{};
    return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
  }

  void report_if_empty() {
    if (!round_open_ || spawns_to_come_ > 0 || !no_children()) return;
    round_open_ = false;
    send({GuardOp::empty});
  }

  void agent_gone() {
    agent_.reset();
    round_open_ = false;
    killing_ = true;
    give_up_at_ = std::chrono::steady_clock::now() + kGiveUp;
  }

  const GuardSettings settings_;
  UniqueFd agent_;
  UniqueFd child_ended_;
  UniqueFd cgroup_;
  std::vector<Worker> workers_;
  int spawns_to_come_ = 0;
  bool round_open_ = false;    // begun and not yet reported empty
  bool round_broken_ = false;  // a worker of it could not be started
  bool killing_ = false;
  std::chrono::steady_clock::time_point give_up_at_{};
};

void write_file(const char* path, const std::string& text) {
  UniqueFd fd(::open(path, O_WRONLY | O_CLOEXEC));
  if (fd && ::write(fd.get(), text.data(), text.size()) < 0) ::perror(path);
}

// In a fresh PID namespace /proc must be that namespace's own, for us and for the workers.
bool enter_namespaces(bool user_namespace, uid_t uid, gid_t gid) {
  if (user_namespace) {
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", std::to_string(uid) + " " + std::to_string(uid) + " 1");
    write_file("/proc/self/gid_map", std::to_string(gid) + " " + std::to_string(gid) + " 1");
  }
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0;
}

[[noreturn]] void guard_main(const GuardSettings& settings, UniqueFd agent) {
  ::prctl(PR_SET_NAME, "dtrain-guard");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  // Should the agent die while it is stopped, nobody else would wake us; we see its end on the socket.
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);
  ::setsid();
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  Guard(settings, std::move(agent)).run();
  if (!settings.cgroup_folder.empty()) remove_cgroup(settings.cgroup_folder);
  ::_exit(0);
}

bool wait_ready(int socket) {
  pollfd fd{socket, POLLIN, 0};
  ReceivedGuardMessage received;
  return ::poll(&fd, 1, 5000) == 1 && receive_guard_message(socket, received) == Receive::message;
}

// Like fork(), into new namespaces.
pid_t fork_into(unsigned long flags) { return pid_t(::syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0)); }

}  // namespace

Result<GuardHandle> start_guard(const GuardSettings& settings) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return system_error("cannot make a socket pair for the guard", errno);
  }
  UniqueFd ours(ends[0]), theirs(ends[1]);
  const bool pidns = settings.level == Containment::pidns;
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  bool user_namespace = false;
  pid_t pid = pidns ? fork_into(CLONE_NEWPID | CLONE_NEWNS) : ::fork();
  if (pid < 0 && pidns && errno == EPERM) {
    user_namespace = true;
    pid = fork_into(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS);
  }
  if (pid < 0) return system_error(pidns ? "cannot make a PID namespace" : "cannot fork the guard", errno);
  if (pid == 0) {
    ours.reset();
    // Blocking for us: the agent always reads, and the guard has nothing better to do than to be heard.
    ::fcntl(theirs.get(), F_SETFL, 0);
    if (pidns) {
      if (!enter_namespaces(user_namespace, uid, gid)) ::_exit(1);
      if (send_guard_message(theirs.get(), {GuardOp::ready}) != 0) ::_exit(1);
    }
    guard_main(settings, std::move(theirs));
  }
  theirs.reset();
  if (pidns && !wait_ready(ours.get())) {
    return Error{ErrorKind::system, "cannot set up a PID namespace (mounting its /proc is not allowed here)"};
  }
  return GuardHandle{pid, std::move(ours)};
}

}  // namespace dtrain::launcher
