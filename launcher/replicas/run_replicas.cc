#include "launcher/replicas/run_replicas.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/agent/run_job.h"
#include "launcher/base/inherited.h"
#include "launcher/base/last_words.h"
#include "launcher/front/end_requests.h"
#include "launcher/front/front.h"
#include "launcher/front/front_message.h"
#include "launcher/front/interrupt.h"
#include "launcher/front/order_lines.h"
#include "launcher/front/poll_time.h"
#include "launcher/job/exit_codes.h"
#include "launcher/output/output_writer.h"
#include "launcher/process/sweep.h"
#include "launcher/replicas/group_specs.h"
#include "launcher/replicas/replica_core.h"
#include "launcher/terminal/console_turns.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {
namespace {

// What a front has left that was killed: its agent and its guard see its end, and clean up within this time.
constexpr auto kCleansUp = std::chrono::seconds(5);
constexpr std::chrono::seconds kTurn{1};              // for those of a group's lines that are being written
constexpr auto kKilledEnd = std::chrono::seconds(5);  // for what is killed then
// How long after Ctrl-Z the fronts have to stop: each waits up to 2 s for its workers (JobControl).
constexpr auto kFrontsStop = std::chrono::seconds(3);

struct Group {
  pid_t front = 0;
  UniqueFd orders;  // the writing end

  // A front that has ended counts as one that has stopped. Its parent does not consume the news.
  bool is_stopped() const {
    siginfo_t info{};
    return front == 0 || (::waitid(P_PID, static_cast<id_t>(front), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
                          info.si_pid == front);
  }
  // Whether the front has read what it was told.
  bool has_heard() const {
    int unread = 0;
    return front == 0 || ::ioctl(orders.get(), FIONREAD, &unread) != 0 || unread == 0;
  }
};

class Replicas {
 public:
  Replicas(const JobSpec& node, std::vector<int> stop, std::vector<int> passed, UniqueFd signals, ConsoleTurns* turns)
      : orders_(node.orders),
        by_engine_(node.orders >= 0),
        ends_with_(node.ends_with),
        planned_(node.planned_signals),
        passed_(std::move(passed)),
        ends_(std::move(stop)),
        signals_(std::move(signals)),
        turns_(turns),
        specs_(group_specs(node)),
        groups_(specs_.size()),
        core_(static_cast<int>(specs_.size()), node.replicas.first) {}

  int run() {
    start();
    while (!core_.over()) {
      wait(longest_wait());
      reap();
      send_planned();
      if (suspends_by_ && (all_stopped() || SteadyClock::now() >= *suspends_by_)) suspend();
    }
    for (const auto end = SteadyClock::now() + kCleansUp; !no_children() && SteadyClock::now() < end;) {
      wait(milliseconds_until(end));
      reap();
    }
    if (!no_children()) end_descendants(kKilledEnd);
    if (const auto summary = core_.summary()) tell(*summary);
    return core_.exit_code();
  }
  bool is_interrupted() const { return !by_engine_ && core_.is_interrupted(); }

 private:
  void start();
  bool start(int at);
  [[noreturn]] void be_group(int at, UniqueFd orders);
  int longest_wait() const;
  void wait(int timeout_ms);
  void read_signals();
  void read_orders();
  void send_planned();
  void pass_on(int signal);
  void stop(const StopSignal& signal);
  void judge_deaf(bool kills);
  void order(int signal);
  void signal_fronts(int signal);
  bool all_stopped() const;
  void suspend();
  void reap();
  void tell(const std::string& text);

  const pid_t self_ = ::getpid();
  const pid_t parent_ = ::getppid();
  int orders_;  // from an engine; -1: there is none, or it is gone
  const bool by_engine_;
  int ends_with_;                       // FrontSignals::ends_with
  std::vector<PlannedSignal> planned_;  // that are still to come
  OrderLines order_lines_;
  const std::vector<int> passed_;
  EndRequests ends_;
  UniqueFd signals_;
  ConsoleTurns* turns_;
  std::vector<JobSpec> specs_;
  std::vector<Group> groups_;
  ReplicaCore core_;
  bool more_dead_ = false;  // children that are not reaped yet, perhaps
  // After Ctrl-Z: by then this process stops, sooner if all fronts have stopped.
  std::optional<SteadyClock::time_point> suspends_by_;
  bool goes_on_ = false;  // it was continued meanwhile, or is to end
};

// All groups or none.
void Replicas::start() {
  bool all = true;
  for (int at = 0; at < static_cast<int>(specs_.size()); ++at) {
    all = all && start(at);
    if (!all) core_.ended(at, kExitOwnFailure);
  }
  if (!all) order(SIGTERM);
}

bool Replicas::start(int at) {
  Group& group = groups_[static_cast<std::size_t>(at)];
  int ends[2];
  UniqueFd theirs;
  pid_t front = -1;
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) {
    theirs.reset(ends[0]);
    group.orders.reset(ends[1]);
    front = ::fork();
  }
  if (front == 0) be_group(at, std::move(theirs));
  if (front > 0) {
    group.front = front;
    return true;
  }
  const Error error = system_error("the replica groups cannot be started", errno);
  tell(error.message + " (see `ulimit -n` and `ulimit -u`)");
  return false;
}

void Replicas::be_group(int at, UniqueFd orders) {
  // Whoever kills the process that the user knows means the job.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != self_) ::_exit(kExitOwnFailure);
  for (Group& other : groups_) other.orders.reset();
  signals_.reset();
  JobSpec& spec = specs_[static_cast<std::size_t>(at)];
  spec.console.turns = turns_;
  spec.orders = orders.get();
  spec.only_orders = true;
  const int code = run_job(spec);
  ::_exit(code);
}

int Replicas::longest_wait() const {
  const int suspends = suspends_by_ ? milliseconds_until(*suspends_by_) : -1;
  if (planned_.empty()) return suspends;
  const int planned = milliseconds_until(planned_.front().at);
  return suspends < 0 ? planned : std::min(suspends, planned);
}

void Replicas::wait(int timeout_ms) {
  pollfd fds[] = {{signals_.get(), POLLIN, 0}, {orders_, POLLIN, 0}, {ends_with_, POLLIN, 0}};
  if (::poll(fds, std::size(fds), more_dead_ ? 0 : timeout_ms) <= 0) return;
  if (fds[0].revents != 0) read_signals();
  if (fds[1].revents != 0) read_orders();
  if (fds[2].revents == 0) return;
  ends_with_ = -1;
  stop({SIGTERM, SI_KERNEL});
}

void Replicas::read_signals() {
  signalfd_siginfo info;
  int job_control = 0;  // of SIGTSTP and SIGCONT the later one undoes the other
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) continue;  // reap() looks for itself
    if (signal == SIGTSTP || signal == SIGCONT)
      job_control = signal;
    else if (ends_.is_request(signal))
      stop({signal, info.ssi_code, static_cast<pid_t>(info.ssi_pid) == parent_ && ::getppid() != parent_});
    else
      order(signal);
  }
  // A terminal tells the fronts too: they are in our process group. A stop that comes twice is one.
  if (job_control == SIGTSTP) {
    signal_fronts(SIGTSTP);
    suspends_by_ = SteadyClock::now() + kFrontsStop;
    goes_on_ = false;
  } else if (job_control == SIGCONT && suspends_by_) {
    goes_on_ = true;
  } else if (job_control == SIGCONT) {
    signal_fronts(SIGCONT);
  }
}

bool Replicas::all_stopped() const {
  return std::all_of(groups_.begin(), groups_.end(), [](const Group& group) { return group.is_stopped(); });
}

// The fronts have stopped, and no sooner may a shell see this process stopped: a front that it continues before that
// stops afterwards, for good.
void Replicas::suspend() {
  suspends_by_.reset();
  if (!goes_on_) {
    sigset_t stop, go_on;
    ::sigemptyset(&stop);
    ::sigaddset(&stop, SIGTSTP);
    ::sigemptyset(&go_on);
    ::sigaddset(&go_on, SIGCONT);
    ::kill(self_, SIGTSTP);
    // `kill %1` sends a request to end and SIGCONT, which our SIGTSTP discards.
    if (ends_.one_is_pending()) ::kill(self_, SIGCONT);
    ::sigprocmask(SIG_UNBLOCK, &stop, nullptr);  // here this process is stopped, and continued
    ::sigprocmask(SIG_BLOCK, &stop, nullptr);
    const timespec at_once{};
    ::sigtimedwait(&go_on, nullptr, &at_once);  // found later, it would undo a Ctrl-Z after it
  }
  signal_fronts(SIGCONT);
}

void Replicas::read_orders() {
  char chunk[256];
  const ssize_t got = ::read(orders_, chunk, sizeof chunk);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    orders_ = -1;
    return stop({SIGTERM, SI_KERNEL, true});
  }
  order_lines_.feed({chunk, static_cast<std::size_t>(got)}, [this](int signal) { pass_on(signal); });
}

void Replicas::send_planned() {
  while (!planned_.empty() && SteadyClock::now() >= planned_.front().at) {
    const int signal = planned_.front().signal;
    planned_.erase(planned_.begin());
    pass_on(signal);
  }
}

// A signal that no process has sent.
void Replicas::pass_on(int signal) {
  if (ends_.is_request(signal))
    stop({signal, SI_KERNEL});
  else if (std::find(passed_.begin(), passed_.end(), signal) != passed_.end())
    order(signal);
}

void Replicas::stop(const StopSignal& signal) {
  const auto request = ends_.take(signal, SteadyClock::now());
  if (!request) return;
  core_.stopped(signal.signal);
  goes_on_ = true;
  if (request->op == FrontMessage::Op::stop_again) judge_deaf(ends_.agent_is_stuck());
  order(signal.signal);
}

// The fronts that have not read the requests before: one that was stopped by SIGSTOP would hear of none.
void Replicas::judge_deaf(bool kills) {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const Group& group = groups_[i];
    if (group.has_heard()) continue;
    tell(
        fmt::format("{}its dtrain (pid {}) does not run{}", specs_[i].lead, group.front,
                    kills ? ": it is killed" : "; continue it (kill -CONT), or ask again in a few seconds to kill it"));
    if (kills) ::kill(group.front, SIGKILL);
  }
}

// A front that has ended, or is stopped, does not read.
void Replicas::order(int signal) {
  const std::string line = fmt::format("{}\n", signal);
  for (const Group& group : groups_)
    if (group.front > 0 && ::write(group.orders.get(), line.data(), line.size()) < 0 && errno == EAGAIN)
      tell(fmt::format("a group takes no signals: its dtrain (pid {}) does not run", group.front));
}

void Replicas::signal_fronts(int signal) {
  for (const Group& group : groups_)
    if (group.front > 0) ::kill(group.front, signal);
}

// As the last subreaper also what a killed front has left.
void Replicas::reap() {
  more_dead_ = false;
  for (int n = 0; n < kReapedInARow; ++n) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0) return;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      if (groups_[i].front != info.si_pid) continue;
      groups_[i] = {};
      const int at = static_cast<int>(i);
      const auto said = info.si_code == CLD_EXITED ? core_.ended(at, info.si_status) : core_.killed(at, info.si_status);
      if (said) tell(*said);
    }
  }
  more_dead_ = true;
}

void Replicas::tell(const std::string& text) {
  pollfd err{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&err, 1, 0) != 1 || (err.revents & POLLOUT) == 0) return;  // whoever has the turn waits for it
  const ConsoleTurns::Turn turn(*turns_, STDERR_FILENO, kTurn);
  say_unless_stuck(text);
}

int cannot_run(const Error& error) {
  say_unless_stuck(error.message);
  return kExitOwnFailure;
}

}  // namespace

int run_replicas(const JobSpec& node) {
  std::fflush(nullptr);  // else each group would write it again
  std::vector<int> stop = not_ignored(node.stop_signals), passed = not_ignored(node.passed_signals);
  const sigset_t mask = block_signals(stop, passed);
  UniqueFd signals(::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) return cannot_run(system_error("cannot watch signals", errno));
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return cannot_run(system_error("cannot be a subreaper", errno));
  auto turns = ConsoleTurns::make(same_file(STDOUT_FILENO, STDERR_FILENO));
  if (!turns) return cannot_run(turns.error());
  Replicas replicas(node, std::move(stop), std::move(passed), std::move(signals), *turns);
  const int code = replicas.run();
  if (replicas.is_interrupted()) die_of_interrupt();
  return code;
}

}  // namespace dtrain::launcher
