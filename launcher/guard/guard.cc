#include "launcher/guard.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
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
  Guard(const GuardSettings& settings, UniqueFd agent)
      : settings_(settings), agent_(std::move(agent)), events_(::epoll_create1(EPOLL_CLOEXEC)) {
    sigset_t chld;
    ::sigemptyset(&chld);
    ::sigaddset(&chld, SIGCHLD);
    child_ended_.reset(::signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!settings_.cgroup_folder.empty()) cgroup_ = open_to_clone_into(settings_.cgroup_folder);
    watch(child_ended_.get());
    watch(agent_.get());
  }

  void run() {
    while (agent_ || !no_children()) {
      const Ready ready = wait(killing_ ? kSweepAgainMs : until_fence());
      if (ready.child) drain_signals();
      if (ready.child && settings_.terminal != nullptr) look_for_stop();
      reap_orphans();
      if (agent_ && ready.agent) read_agent();
      if (!killing_ && until_fence() == 0) keep_fence();
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
    bool attached;
  };

  struct Ready {
    bool agent = false;
    bool child = false;
  };

  void watch(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    ::epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event);
  }

  // epoll lists descriptors in the order in which they became ready, so workers are reaped, and reported, in the order
  // in which they died. waitid() would go by age: the wrong one would count as the first failure.
  Ready wait(int timeout_ms) {
    epoll_event events[64];
    const int n = ::epoll_wait(events_.get(), events, int(std::size(events)), timeout_ms);
    Ready ready;
    for (int i = 0; i < n; ++i) {
      const int fd = events[i].data.fd;
      if (fd == agent_.get()) {
        ready.agent = true;
      } else if (fd == child_ended_.get()) {
        ready.child = true;
      } else {
        reap_worker(fd);
      }
    }
    return ready;
  }

  void drain_signals() {
    signalfd_siginfo info;
    while (::read(child_ended_.get(), &info, sizeof info) == sizeof info) {
    }
  }

  void look_for_stop() {
    for (const Worker& w : workers_) {
      siginfo_t info{};
      if (!w.attached || ::waitid(P_PID, id_t(w.pid), &info, WSTOPPED | WNOHANG) != 0 || info.si_pid == 0) continue;
      const int signal = info.si_status;
      if (signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU) {
        send({GuardOp::stopped, w.local_rank, signal});
      }
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
        round_broken_ = killing_ = stopping_ = false;
        break;
      case GuardOp::spawn:
        start_worker(received);
        break;
      case GuardOp::signal_workers:
        for (const Worker& w : workers_) ::syscall(SYS_pidfd_send_signal, w.pidfd.get(), m.a, nullptr, 0);
        break;
      case GuardOp::signal_containment:
        if (ends_a_process(m.a)) note_stop();
        signal_all(m.a);
        break;
      case GuardOp::kill:
        note_stop();
        killing_ = true;
        break;
      default:
        break;
    }
  }

  void start_worker(ReceivedGuardMessage& received) {
    const int local_rank = received.message.local_rank;
    const auto session = Session(received.message.a);
    --spawns_to_come_;
    SpawnResult result{-1, UniqueFd(), SpawnStep::none, ECANCELED};
    ExecPayload payload;
    if (!round_broken_ && payload.map(received.fds[0].get())) {
      const bool bound = size_t(local_rank) < settings_.cpus.size();
      result = spawn({payload.argv(), payload.envp(), received.fds[1].get(), received.fds[2].get(),
                      received.fds[3].get(), cgroup_.get(), settings_.cgroup_procs_fd, settings_.nofile, session,
                      bound ? &settings_.cpus[size_t(local_rank)] : nullptr});
    }
    if (result.pid < 0) {
      round_broken_ = true;  // the round cannot succeed: start no more of it
      send({GuardOp::not_started, local_rank, int32_t(result.step), result.error});
      return;
    }
    const bool pidns = settings_.level == Containment::pidns;
    send({GuardOp::started, local_rank, 0, 0, pidns ? 0 : result.pid}, pidns ? result.pidfd.get() : -1);
    watch(result.pidfd.get());
    workers_.push_back({local_rank, result.pid, std::move(result.pidfd), session != Session::own});
  }

  // Groups first, at once; then what has left them. A stopped process acts on a signal only when continued.
  void signal_all(int signal) {
    if (no_children()) return;
    std::vector<pid_t> groups;
    for (const Worker& w : workers_) {
      ::kill(-w.pid, signal);  // its leader is not reaped, so the number is still its own
      groups.push_back(w.pid);
    }
    signal_descendants(::getpid(), signal, groups);
    if (ends_a_process(signal)) signal_all(SIGCONT);
  }

  static bool ends_a_process(int signal) { return signal != SIGSTOP && signal != SIGCONT; }

  // Milliseconds until it may have passed; 0: it has. -1: there is none, or nobody whom it would stop.
  int until_fence() const {
    if (settings_.fence == nullptr || !round_open_) return -1;
    const auto left = settings_.fence->left().value_or(settings_.fence_every);
    const auto wait = std::min<Duration>(left, settings_.fence_every);
    return int(std::max(std::chrono::ceil<std::chrono::milliseconds>(wait), std::chrono::milliseconds(0)).count());
  }

  // The agent does not run, or not well enough.
  void keep_fence() {
    note_stop();
    killing_ = true;
    send({GuardOp::fenced});
  }

  // Whoever is dead by now died by itself.
  void note_stop() {
    wait(0);
    stopping_ = true;
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
    // The workers need no search, and should /proc fail us they are dead all the same.
    for (const Worker& w : workers_) {
      ::syscall(SYS_pidfd_send_signal, w.pidfd.get(), SIGKILL, nullptr, 0);
      ::kill(-w.pid, SIGKILL);
    }
    kill_descendants(::getpid());
  }

  void reap_worker(int pidfd) {
    const auto w =
        std::find_if(workers_.begin(), workers_.end(), [&](const Worker& x) { return x.pidfd.get() == pidfd; });
    siginfo_t info{};
    if (w == workers_.end() || ::waitid(P_PID, id_t(w->pid), &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0) return;
    const int local_rank = w->local_rank;
    workers_.erase(w);  // closing the pidfd takes it out of events_
    send({GuardOp::exited, local_rank, info.si_code, info.si_status, info.si_pid, stopping_});
  }

  // What workers left behind and we inherited. A dead worker in between waits for its turn in wait().
  void reap_orphans() {
    siginfo_t info{};
    while (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
      const auto is_it = [&](const Worker& w) { return w.pid == info.si_pid; };
      if (std::any_of(workers_.begin(), workers_.end(), is_it)) return;
      ::waitid(P_PID, id_t(info.si_pid), &info, WEXITED | WNOHANG);
      info = {};
    }
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
  UniqueFd events_;  // epoll: the agent, SIGCHLD, every worker's pidfd
  UniqueFd child_ended_;
  UniqueFd cgroup_;
  std::vector<Worker> workers_;
  int spawns_to_come_ = 0;
  bool round_open_ = false;    // begun and not yet reported empty
  bool round_broken_ = false;  // a worker of it could not be started
  bool stopping_ = false;      // workers have been told to end
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

// If agent and front were killed together, a script would go on with the terminal of a dead worker. In a PID namespace
// a group outside has no number (0), so only the modes can be mended.
void give_back(const AttachedTerminal& terminal, Containment level) {
  if (level != Containment::pidns && !terminal.with_owner()) terminal.take_back();
  if (level == Containment::pidns && terminal.foreground() > 0) terminal.restore_modes();
}

[[noreturn]] void guard_main(const GuardSettings& settings, UniqueFd agent) {
  // Not a name with "dtrain" in it: after `pkill -9 dtrain` somebody must be left to clean up.
  ::prctl(PR_SET_NAME, "dt-guard");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  // Should the agent die while it is stopped, nobody else would wake us; we see its end on the socket.
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);
  // Not reached by what the terminal sends to the job. Only a process of its session can hand the terminal on.
  if (settings.terminal != nullptr)
    ::setpgid(0, 0);
  else
    ::setsid();
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  Guard(settings, std::move(agent)).run();
  if (settings.terminal != nullptr) give_back(*settings.terminal, settings.level);
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
