#include "launcher/front/front.h"

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
#include <iterator>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/base/last_words.h"
#include "launcher/front/end_requests.h"
#include "launcher/front/front_message.h"
#include "launcher/front/front_terminal.h"
#include "launcher/front/interrupt.h"
#include "launcher/front/job_control.h"
#include "launcher/front/order_lines.h"
#include "launcher/front/poll_time.h"
#include "launcher/front/starter_looks.h"
#include "launcher/job/exit_codes.h"
#include "launcher/job/exit_status.h"
#include "launcher/process/cgroup.h"
#include "launcher/process/sweep.h"

namespace dtrain::launcher {

namespace {

// How long a living guard has to clean up after its agent before the front does it itself.
constexpr auto kGuardCleansUp = std::chrono::seconds(3);
// How long whoever has started this program has to answer whether he is there.
constexpr auto kStarterAnswers = std::chrono::milliseconds(200);
// How long what is left has to die of SIGKILL before the front ends without it.
constexpr auto kGiveUp = std::chrono::seconds(10);

class Front {
 public:
  Front(pid_t agent, UniqueFd socket, UniqueFd signals, const JobNotes* notes, const FrontSignals& told,
        const AttachedTerminal* terminal)
      : agent_(agent),
        socket_(std::move(socket)),
        signals_(std::move(signals)),
        notes_(notes),
        stopped_lease_(told.stopped_lease),
        ends_with_(told.ends_with),
        started_from_(told.started_from),
        orders_(told.orders),
        only_orders_(told.only_orders),
        lead_(told.lead),
        passed_(told.passed),
        planned_(told.planned),
        ends_(told.stop),
        terminal_(terminal),
        job_control_(socket_, terminal_, ends_) {}

  int run() {
    while (agent_ > 0) {
      wait(longest_wait());
      reap();
      send_planned();
      look_for_starter();
      if (agent_ > 0 && stopped_at_ && SteadyClock::now() >= *stopped_at_ + stopped_lease_) end_stopped_agent();
    }
    if (!clean_) clean_up();
    terminal_.take_back();
    return exit_code_;
  }

 private:
  int longest_wait() const {
    if (more_dead_) return 0;
    std::optional<SteadyClock::time_point> next = looks_.next();
    if (stopped_at_) next = std::min(next.value_or(SteadyClock::time_point::max()), *stopped_at_ + stopped_lease_);
    if (!planned_.empty()) next = std::min(next.value_or(SteadyClock::time_point::max()), planned_.front().at);
    return next ? milliseconds_until(*next) : -1;
  }

  void send_planned() {
    while (agent_ > 0 && !planned_.empty() && SteadyClock::now() >= planned_.front().at) {
      const int signal = planned_.front().signal;
      planned_.erase(planned_.begin());
      take(signal);
    }
  }

  // A signal that no process has sent.
  void take(int signal) {
    if (ends_.is_request(signal))
      end_job({signal, SI_KERNEL, false, only_orders_});
    else
      send_to(socket_.get(), {FrontMessage::Op::signal, signal});
  }

  void wait(int timeout_ms) {
    // Without an attached worker the agent says nothing that the front does not ask for.
    pollfd fds[] = {{signals_.get(), POLLIN, 0},
                    {terminal_.is_lent() ? socket_.get() : -1, POLLIN, 0},
                    {terminal_.hangup_fd(), 0, 0},
                    {ends_with_, POLLIN, 0},
                    {orders_, POLLIN, 0}};
    if (::poll(fds, std::size(fds), timeout_ms) <= 0) return;
    if (fds[0].revents != 0) read_signals();
    if (fds[1].revents != 0) read_agent((fds[1].revents & POLLHUP) != 0);
    if (fds[2].revents != 0) hang_up();
    if (fds[3].revents != 0) {
      ends_with_ = -1;
      end_job({SIGTERM, SI_KERNEL});
    }
    if (fds[4].revents != 0) read_orders();
  }

  // An order is a request of its own, as a key of a terminal is: whoever gives it has seen to that.
  void read_orders() {
    char chunk[256];
    const ssize_t got = ::read(orders_, chunk, sizeof chunk);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) {
      orders_ = -1;
      return end_job({SIGTERM, SI_KERNEL, true}, FrontMessage::Op::stop_orphan);
    }
    order_lines_.feed({chunk, static_cast<std::size_t>(got)}, [this](int signal) {
      const bool passes = std::find(passed_.begin(), passed_.end(), signal) != passed_.end();
      if (passes || ends_.is_request(signal)) take(signal);
    });
  }

  // What ends the job comes first: `kill %1` of a stopped job sends SIGTERM and SIGCONT.
  void read_signals() {
    signalfd_siginfo info;
    int job_control = 0;  // of SIGTSTP and SIGCONT the later one undoes the other
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
      const int signal = int(info.ssi_signo);
      if (signal == SIGCHLD) continue;  // reap() looks for itself
      if (signal == SIGTSTP || signal == SIGCONT)
        job_control = signal;
      else if (only_orders_)
        continue;
      else if (ends_.is_request(signal))
        end_job({signal, info.ssi_code, tells_of_a_death(info)});
      else
        send_to(socket_.get(), {FrontMessage::Op::signal, signal});
    }
    if (job_control == SIGTSTP) job_control_.stopped();
    if (job_control != SIGCONT) return;
    job_control_.continued();
    if (!started_from_.empty()) looks_.begin(SteadyClock::now());
  }

  // Open MPI's daemon sends SIGCONT, a second later SIGTERM, and one more second later SIGKILL. It may also hand on a
  // SIGCONT of the user's, so the signal alone does not tell.
  void look_for_starter() {
    if (agent_ <= 0 || !looks_.take(SteadyClock::now()) || !nobody_listens(started_from_, kStarterAnswers)) return;
    started_from_.clear();
    looks_.end();
    starter_is_gone_ = !ends_.any();      // else its daemon's SIGTERM has come
    end_job({SIGTERM, SI_KERNEL, true});  // news, and no impatience, if somebody has asked before
  }

  void read_agent(bool has_ended) {
    if (const auto message = receive_from(socket_.get()))
      job_control_.heard(*message);
    else if (has_ended)
      socket_.reset();  // and reap() sees the agent's end
  }

  // By the kernel, since our parent has died; or by the daemon of who has started us, once.
  bool tells_of_a_death(const signalfd_siginfo& info) {
    if (info.ssi_signo == SIGTERM && std::exchange(starter_is_gone_, false)) return true;
    return pid_t(info.ssi_pid) == parent_ && ::getppid() != parent_;
  }

  // The terminal is gone. The kernel tells the group in its foreground, which is not ours while the terminal is lent.
  // The shell may tell us, or not.
  void hang_up() {
    if (ends_.is_request(SIGHUP)) end_job({SIGHUP, SI_KERNEL});
    terminal_.hung_up();
  }

  // A second request kills the workers. If a third one is needed, the job ends without the agent.
  void end_job(const StopSignal& signal, FrontMessage::Op first = FrontMessage::Op::stop) {
    auto message = ends_.take(signal, SteadyClock::now());
    if (!message) return;
    if (message->op == FrontMessage::Op::stop) message->op = first;
    send_to(socket_.get(), *message);
    if (agent_ > 0 && ends_.agent_is_stuck()) ::kill(agent_, SIGKILL);
  }

  // The agent leaves the job alone. Once the agent is dead, the guard empties the containment.
  void end_stopped_agent() {
    say(fmt::format("the agent (pid {}) was stopped (SIGSTOP) for {:g} s: ending the job", agent_,
                    in_seconds(stopped_lease_)));
    ::kill(agent_, SIGKILL);
    stopped_at_.reset();
  }

  // Reap the agent, and as the last subreaper or as PID 1 of a container any orphan.
  void reap() {
    more_dead_ = false;
    for (int n = 0; n < kReapedInARow; ++n) {
      siginfo_t info{};
      if (::waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WCONTINUED | WNOHANG) != 0 || info.si_pid == 0) return;
      if (info.si_pid != agent_) continue;
      if (info.si_code == CLD_STOPPED)
        stopped_at_ = SteadyClock::now();
      else if (info.si_code == CLD_CONTINUED)
        stopped_at_.reset();
      else
        agent_ended(info);
    }
    more_dead_ = true;
  }

  void agent_ended(const siginfo_t& info) {
    clean_ = info.si_code == CLD_EXITED;
    exit_code_ = clean_ ? info.si_status : kExitOwnFailure;
    if (!clean_) {
      say(fmt::format("the agent (pid {}) was killed by {}: ending the job", agent_, signal_name(info.si_status)));
    }
    agent_ = 0;
  }

  // The guard sees the agent's end too and cleans up at the same time. Once both are through, nothing is left.
  void clean_up() {
    const auto start = SteadyClock::now();
    if (notes_->cgroup_folder[0] != 0) kill_cgroup(notes_->cgroup_folder);
    kill_descendants(::getpid(), {notes_->guard});
    SweepPace pace;
    while (!no_children() && SteadyClock::now() < start + kGiveUp) {
      wait(more_dead_ ? 0 : 50);
      reap();
      if (!pace.due(more_dead_)) continue;
      const bool guard_had_its_time = SteadyClock::now() > start + kGuardCleansUp;
      kill_descendants(::getpid(), guard_had_its_time ? std::vector<pid_t>{} : std::vector<pid_t>{notes_->guard});
    }
    remove_what_is_left(*notes_);
    if (no_children()) return;
    if (!can_find_processes()) return say("processes are left, and /proc does not show which");
    const auto left = descendants(::getpid());
    say(fmt::format("{} processes do not die, the first is pid {}: see `ps -o pid,stat,wchan:30,cmd`", left.size(),
                    left.empty() ? 0 : left[0]));
  }

  void say(const std::string& text) const { say_unless_stuck(lead_ + text); }

  const pid_t parent_ = ::getppid();
  pid_t agent_;
  UniqueFd socket_;
  UniqueFd signals_;
  const JobNotes* notes_;
  const std::chrono::nanoseconds stopped_lease_;
  int ends_with_;
  std::vector<NetworkPlace> started_from_;
  StarterLooks looks_;
  int orders_;
  const bool only_orders_;
  const std::string lead_;
  OrderLines order_lines_;
  const std::vector<int> passed_;
  std::vector<PlannedSignal> planned_;  // that are still to come
  EndRequests ends_;
  FrontTerminal terminal_;
  JobControl job_control_;
  std::optional<SteadyClock::time_point> stopped_at_;  // the agent, by SIGSTOP
  bool more_dead_ = false;                             // children that are not reaped yet, perhaps
  bool starter_is_gone_ = false;                       // and its daemon's SIGTERM is still to come
  bool clean_ = true;                                  // the agent ended by itself, and has cleaned up
  int exit_code_ = kExitOwnFailure;
};

int cannot(const char* what) {
  std::fprintf(stderr, "dtrain: cannot %s: %s\n", what, std::strerror(errno));
  return kExitOwnFailure;
}

}  // namespace

sigset_t block_signals(const std::vector<int>& stop, const std::vector<int>& passed) {
  sigset_t mask;
  ::sigemptyset(&mask);
  for (const int s : stop) ::sigaddset(&mask, s);
  for (const int s : passed) ::sigaddset(&mask, s);
  for (const int s : {SIGCHLD, SIGCONT}) ::sigaddset(&mask, s);
  struct sigaction on_tstp {};
  ::sigaction(SIGTSTP, nullptr, &on_tstp);
  if (on_tstp.sa_handler != SIG_IGN) ::sigaddset(&mask, SIGTSTP);
  ::sigprocmask(SIG_BLOCK, &mask, nullptr);
  ::signal(SIGCHLD, SIG_DFL);  // an ignored SIGCHLD, inherited, would make exit statuses vanish
  return mask;
}

int run_front(const FrontSignals& signals, const AttachedTerminal* terminal,
              int (*agent_main)(FrontSide side, void* context), void* context) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return cannot("make a socket pair");
  UniqueFd ours(ends[0]), theirs(ends[1]);
  void* page = ::mmap(nullptr, sizeof(JobNotes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return cannot("map memory");
  auto* notes = new (page) JobNotes;

  const sigset_t mask = block_signals(signals.stop, signals.passed);
  UniqueFd signal_fd(::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signal_fd) return cannot("watch signals");
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return cannot("be a subreaper");

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
  // An engine hears of it by the exit code: there is no shell.
  if (notes->interrupted && signals.orders < 0) die_of_interrupt();
  return code;
}

}  // namespace dtrain::launcher
