#include "launcher/front.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>

#include "launcher/cgroup.h"
#include "launcher/exit_codes.h"
#include "launcher/exit_status.h"
#include "launcher/last_words.h"
#include "launcher/log_tree.h"
#include "launcher/status_folder.h"
#include "launcher/sweep.h"

namespace dtrain::launcher {

namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

// How long a living guard has to clean up after its agent before the front does it itself.
constexpr auto kGuardCleansUp = std::chrono::seconds(3);
// How long after the second stop request a third one ends the agent itself.
constexpr auto kStuckAgent = std::chrono::seconds(3);
constexpr auto kGiveUp = std::chrono::seconds(10);
constexpr auto kSuspendAnswer = std::chrono::seconds(1);

int milliseconds_until(SteadyTime t) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(t - std::chrono::steady_clock::now());
  return left.count() < 0 ? 0 : int(left.count()) + 1;
}

class Front {
 public:
  Front(pid_t agent, UniqueFd socket, UniqueFd signals, const FrontNotes* notes, const FrontSignals& told,
        const AttachedTerminal* terminal)
      : agent_(agent),
        socket_(std::move(socket)),
        signals_(std::move(signals)),
        notes_(notes),
        stop_signals_(told.stop),
        stopped_lease_(told.stopped_lease),
        terminal_(terminal) {
    if (terminal_ != nullptr) first_modes_ = lent_modes_ = terminal_->modes();
  }

  int run() {
    while (agent_ > 0) {
      wait(stopped_at_ ? milliseconds_until(*stopped_at_ + stopped_lease_) : -1);
      reap();
      // It has left the job alone; the guard then empties the containment.
      if (agent_ > 0 && stopped_at_ && std::chrono::steady_clock::now() >= *stopped_at_ + stopped_lease_) {
        say_unless_stuck(fmt::format("the agent (pid {}) was stopped (SIGSTOP) for {:g} s: ending the job", agent_,
                                     std::chrono::duration<double>(stopped_lease_).count()));
        ::kill(agent_, SIGKILL);
        stopped_at_.reset();
      }
    }
    if (!clean_) clean_up();
    if (terminal_ != nullptr) terminal_->take_back();
    return exit_code_;
  }

 private:
  void wait(int timeout_ms) {
    // The agent speaks up only about an attached worker.
    pollfd fds[] = {{signals_.get(), POLLIN, 0},
                    {terminal_ != nullptr ? socket_.get() : -1, POLLIN, 0},
                    {terminal_ != nullptr && !hung_up_ ? 0 : -1, 0, 0}};
    if (::poll(fds, 3, timeout_ms) <= 0) return;
    if (fds[0].revents != 0) read_signals();
    if (fds[1].revents != 0) read_agent();
    if (fds[2].revents != 0) hang_up();
  }

  // What ends the job comes first: `kill %1` of a stopped job sends SIGTERM and SIGCONT.
  void read_signals() {
    signalfd_siginfo info;
    int job_control = 0;  // the later of SIGTSTP and SIGCONT undoes the other
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
      const int signal = int(info.ssi_signo);
      if (signal == SIGCHLD) continue;  // reap() looks for itself
      if (signal == SIGTSTP || signal == SIGCONT)
        job_control = signal;
      else if (signal == SIGHUP && stops(SIGHUP) && terminal_ != nullptr)
        hang_up();
      else
        request(signal);
    }
    if (job_control == SIGTSTP) suspend(::getpid());
    if (job_control == SIGCONT) continued();
  }

  bool stops(int signal) const {
    return std::find(stop_signals_.begin(), stop_signals_.end(), signal) != stop_signals_.end();
  }

  bool stop_is_pending() const {
    sigset_t pending;
    ::sigpending(&pending);
    return std::any_of(stop_signals_.begin(), stop_signals_.end(), [&](int s) { return ::sigismember(&pending, s); });
  }

  // The terminal is gone. The kernel tells the group in its foreground, which is not ours while it is lent; the shell
  // may tell us, or not. Counted once.
  void hang_up() {
    if (!hung_up_ && stops(SIGHUP)) request(SIGHUP);
    hung_up_ = true;
  }

  // A second stop request kills the workers. If a third one is needed the agent itself is stuck, on a dead file system
  // perhaps: then the job ends without it.
  void request(int signal) {
    tell({FrontMessage::Op::signal, signal});
    if (!stops(signal)) return;
    const auto now = std::chrono::steady_clock::now();
    if (++stop_requests_ == 2) second_request_ = now;
    if (stop_requests_ > 2 && now > second_request_ + kStuckAgent) ::kill(agent_, SIGKILL);
  }

  void tell(FrontMessage message) { send_to(socket_.get(), message); }

  void read_agent() {
    FrontMessage message;
    const ssize_t n = ::recv(socket_.get(), &message, sizeof message, MSG_DONTWAIT);
    if (n == 0) socket_.reset();  // the agent's end, which reap() sees
    if (n != ssize_t(sizeof message) || !is_stop_of_attached(message)) return;
    remember(message.value);
    // Old news: it has got since what it wanted.
    const bool may_read = message.op == FrontMessage::Op::attached_waits && terminal_->foreground() == message.value;
    if (terminal_->with_owner() || may_read) {
      resume();  // `fg` of a job that ran in the background tells nobody: here the worker wanted to read, and may
    } else if (stop_requests_ == 0) {
      suspend(0);  // Ctrl-Z reached the worker's group alone; the shell waits for all of ours
    }
  }

  // Ctrl-Z: workers first, then ourselves, as the shell expects of a job. `whom`: our pid, or 0 for our whole group.
  void suspend(pid_t whom) {
    if (terminal_ != nullptr) {
      if (const pid_t group = terminal_->foreground(); is_of_job(group)) remember(group);
      has_terminal_ = false;
    }
    tell({FrontMessage::Op::suspend, ++suspensions_});
    hear_agent(std::chrono::steady_clock::now() + kSuspendAnswer, suspensions_);
    // SIGTSTP and not SIGSTOP: the kernel discards it where there is no shell that could continue us.
    sigset_t only;
    ::sigemptyset(&only);
    ::sigaddset(&only, SIGTSTP);
    ::kill(whom, SIGTSTP);
    // Of a request to end that came meanwhile, as `kill %1` makes it, our SIGTSTP has discarded the SIGCONT.
    if (stop_is_pending()) ::kill(whom, SIGCONT);
    ::sigprocmask(SIG_UNBLOCK, &only, nullptr);
    ::sigprocmask(SIG_BLOCK, &only, nullptr);
    // Here we have been continued. That SIGCONT is taken here: found later, it would undo a Ctrl-Z that came after it.
    if (take_pending(SIGCONT)) return continued();
    resume();  // we could not be stopped, as the init of a container or without a shell
  }

  static bool take_pending(int signal) {
    sigset_t only;
    ::sigemptyset(&only);
    ::sigaddset(&only, signal);
    const timespec at_once{};
    return ::sigtimedwait(&only, nullptr, &at_once) == signal;
  }

  // What has lent the terminal to a worker cannot go on in the background: the worker would change a terminal that is
  // another's, and of an `fg` that does not continue us we would not hear. A job that is to end must run to do so.
  void continued() {
    resume();
    if (!has_terminal_ && stop_requests_ == 0 && !stop_is_pending()) suspend(0);
  }

  // By `fg` the shell has given us the terminal: the worker gets it back as it left it. By `bg` it has not.
  void resume() {
    if (terminal_ != nullptr) {
      hear_agent(std::chrono::steady_clock::now(), 0);  // a stop up to now is undone by what follows
      const pid_t group = terminal_->foreground();
      const bool ours = terminal_->with_owner();
      has_terminal_ = ours || (group > 0 && group == lent_to_);  // the latter: we were not stopped after all
      if (ours && is_of_job(lent_to_) && terminal_->lend(lent_to_)) terminal_->set_modes(lent_modes_);
    }
    tell({FrontMessage::Op::resume, 0});
  }

  // Read what the agent says until `end`, or until it answers that suspension: an answer to an earlier one may come
  // late, and news of the attached worker in between.
  void hear_agent(SteadyTime end, int suspension) {
    pollfd fd{socket_.get(), POLLIN, 0};
    FrontMessage answer;
    while (::poll(&fd, 1, milliseconds_until(end)) > 0) {
      if (::recv(socket_.get(), &answer, sizeof answer, MSG_DONTWAIT) != ssize_t(sizeof answer)) return;
      if (answer.op == FrontMessage::Op::suspended && answer.value == suspension) return;
      if (is_stop_of_attached(answer)) remember(answer.value);
    }
  }

  static bool is_stop_of_attached(const FrontMessage& m) {
    return m.op == FrontMessage::Op::attached_stopped || m.op == FrontMessage::Op::attached_waits;
  }

  // Only a group of the job may have the terminal from us: in its foreground there may be a shell, after `bg`.
  static bool is_of_job(pid_t group) {
    const auto all = descendants(::getpid());
    return group > 0 && std::any_of(all.begin(), all.end(), [&](pid_t p) { return ::getpgid(p) == group; });
  }

  // The group that gets the terminal next, and the modes it had set: those at first, if it has not had the terminal.
  void remember(pid_t group) {
    if (terminal_->foreground() == group)
      lent_modes_ = terminal_->modes();
    else if (group != lent_to_)
      lent_modes_ = first_modes_;
    lent_to_ = group;
  }

  // The agent, and as the last subreaper or as PID 1 of a container, any orphan.
  void reap() {
    for (;;) {
      siginfo_t info{};
      if (::waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WCONTINUED | WNOHANG) != 0 || info.si_pid == 0) return;
      if (info.si_pid != agent_) continue;
      if (info.si_code == CLD_STOPPED)
        stopped_at_ = std::chrono::steady_clock::now();
      else if (info.si_code == CLD_CONTINUED)
        stopped_at_.reset();
      else
        agent_ended(info);
    }
  }

  void agent_ended(const siginfo_t& info) {
    clean_ = info.si_code == CLD_EXITED;
    exit_code_ = clean_ ? info.si_status : kExitOwnFailure;
    if (!clean_) {
      say_unless_stuck(
          fmt::format("the agent (pid {}) was killed by {}: ending the job", agent_, signal_name(info.si_status)));
    }
    agent_ = 0;
  }

  // The guard sees the agent's end too and works at the same time; once both are through, nothing is left.
  void clean_up() {
    const auto start = std::chrono::steady_clock::now();
    if (notes_->cgroup_folder[0] != 0) kill_cgroup(notes_->cgroup_folder);
    kill_descendants(::getpid(), {notes_->guard});
    while (!no_children() && std::chrono::steady_clock::now() < start + kGiveUp) {
      wait(50);
      reap();
      const bool guard_had_its_time = std::chrono::steady_clock::now() > start + kGuardCleansUp;
      kill_descendants(::getpid(), guard_had_its_time ? std::vector<pid_t>{} : std::vector<pid_t>{notes_->guard});
    }
    if (notes_->cgroup_folder[0] != 0) remove_cgroup(notes_->cgroup_folder);
    if (notes_->temporary_folder[0] != 0) remove_empty_folders(notes_->temporary_folder);
    if (notes_->status_socket[0] != 0) remove_status_socket(notes_->status_socket);
    if (no_children()) return;
    const auto left = descendants(::getpid());
    say_unless_stuck(fmt::format("{} processes do not die, the first is pid {}: see `ps -o pid,stat,wchan:30,cmd`",
                                 left.size(), left.empty() ? 0 : left[0]));
  }

  pid_t agent_;
  UniqueFd socket_;
  UniqueFd signals_;
  const FrontNotes* notes_;
  const std::vector<int>& stop_signals_;
  const std::chrono::nanoseconds stopped_lease_;
  const AttachedTerminal* terminal_;
  bool hung_up_ = false;
  bool has_terminal_ = true;  // the job is in the terminal's foreground, as far as we know
  int suspensions_ = 0;       // their count tells which one the agent answers
  pid_t lent_to_ = 0;         // the group that gets the terminal next, and how it had set it
  termios lent_modes_{};
  termios first_modes_{};
  int stop_requests_ = 0;
  SteadyTime second_request_{};
  std::optional<SteadyTime> stopped_at_;
  bool clean_ = true;
  int exit_code_ = kExitOwnFailure;
};

// A shell loop ends on Ctrl-C only if the program that was interrupted died of it. Returns if that is impossible (PID
// 1).
void die_of_interrupt() {
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, SIGINT);
  ::signal(SIGINT, SIG_DFL);
  ::sigprocmask(SIG_UNBLOCK, &only, nullptr);
  ::raise(SIGINT);
}

int cannot(const char* what) {
  std::fprintf(stderr, "dtrain: cannot %s: %s\n", what, std::strerror(errno));
  return kExitOwnFailure;
}

}  // namespace

void send_to(int socket, const FrontMessage& message) {
  ::send(socket, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int run_front(const FrontSignals& signals, const AttachedTerminal* terminal,
              int (*agent_main)(FrontSide side, void* context), void* context) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return cannot("make a socket pair");
  UniqueFd ours(ends[0]), theirs(ends[1]);
  void* page = ::mmap(nullptr, sizeof(FrontNotes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return cannot("map memory");
  auto* notes = new (page) FrontNotes;

  sigset_t mask;
  ::sigemptyset(&mask);
  for (const int s : signals.stop) ::sigaddset(&mask, s);
  for (const int s : signals.passed) ::sigaddset(&mask, s);
  for (const int s : {SIGCHLD, SIGCONT}) ::sigaddset(&mask, s);
  struct sigaction on_tstp {};
  ::sigaction(SIGTSTP, nullptr, &on_tstp);
  if (on_tstp.sa_handler != SIG_IGN) ::sigaddset(&mask, SIGTSTP);
  ::sigprocmask(SIG_BLOCK, &mask, nullptr);
  ::signal(SIGCHLD, SIG_DFL);  // an ignored SIGCHLD, inherited, would make exit statuses vanish
  UniqueFd signal_fd(::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signal_fd) return cannot("watch signals");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);

  const pid_t agent = ::fork();
  if (agent < 0) return cannot("fork the agent");
  if (agent == 0) {
    ours.reset();
    signal_fd.reset();
    ::_exit(agent_main({std::move(theirs), notes, terminal}, context));
  }
  theirs.reset();
  ::prctl(PR_SET_NAME, "dtrain");
  const int code = Front(agent, std::move(ours), std::move(signal_fd), notes, signals, terminal).run();
  if (notes->interrupted) die_of_interrupt();
  return code;
}

}  // namespace dtrain::launcher
