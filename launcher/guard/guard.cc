#include "launcher/guard/guard.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <vector>

#include "launcher/guard/guard_protocol.h"
#include "launcher/guard/guarded_workers.h"
#include "launcher/guard/kill_round.h"
#include "launcher/guard/stop_turns.h"
#include "launcher/process/cgroup.h"
#include "launcher/process/spawn.h"
#include "launcher/process/sweep.h"

namespace dtrain::launcher {

namespace {

// While killing, the guard looks this often for processes that a racing fork hid from the last sweep.
constexpr int kSweepAgainMs = 50;
// A suspension is answered when all processes of the round are stopped. How often the guard looks, and how long it
// waits for processes that do not stop (state D).
constexpr int kStoppedAgainMs = 5;
constexpr auto kStops = std::chrono::seconds(1);
// How long a guard without an agent waits for processes that SIGKILL does not end (state D).
constexpr auto kGuardGivesUp = std::chrono::seconds(10);

class Guard {
 public:
  Guard(const GuardSettings& settings, UniqueFd agent)
      : settings_(settings),
        kill_round_(kill_round_by(settings.level, settings.cgroup_folder)),
        agent_(std::move(agent)) {}

  // Whether it was the agent that has left, and not the guard that has failed.
  bool run() {
    set_up();
    while (agent_ || !no_children()) {
      const Ready ready = wait(until_look());
      if (ready.child) drain_signals();
      if (ready.child && settings_.terminal != nullptr) look_for_stop();
      reap_orphans();
      if (agent_ && ready.agent) read_agent();
      if (!killing_ && until_fence() == 0) keep_fence();
      if (killing_ && pace_.due(more_dead_)) kill_all();
      report_suspended();
      report_rest();
      report_if_empty();
      if (!agent_ && std::chrono::steady_clock::now() > give_up_at_) break;
    }
    return !failed_;
  }

 private:
  struct Round {
    int spawns_to_come = 0;
    bool open = false;      // begun and not yet reported empty
    bool broken = false;    // a worker of it could not be started
    bool stopping = false;  // workers have been told to end
    StopTurns turns;
  };

  struct Suspension {
    int number = 0;
    std::chrono::steady_clock::time_point answer_by;
  };

  struct Ready {
    bool agent = false;
    bool child = false;
  };

  // Without any of these the guard cannot do its work: it ends before it has a worker.
  void set_up() {
    if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return fail(GuardNeed::subreaper);
    // Should the agent die while the guard is stopped, nobody else would wake it to see the agent's end on the socket.
    if (::prctl(PR_SET_PDEATHSIG, SIGCONT) != 0) return fail(GuardNeed::death_signal);
    sigset_t chld;
    ::sigemptyset(&chld);
    ::sigaddset(&chld, SIGCHLD);
    child_ended_.reset(::signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!child_ended_) return fail(GuardNeed::signals);
    events_.reset(::epoll_create1(EPOLL_CLOEXEC));
    if (!events_ || !watch(child_ended_.get()) || !watch(agent_.get())) return fail(GuardNeed::events);
    if (!settings_.cgroup_folder.empty()) cgroup_ = open_to_clone_into(settings_.cgroup_folder);
  }

  // Send errno too: the agent says why the job ends.
  void fail(GuardNeed need) {
    failed_ = true;
    send({GuardOp::failed, -1, int32_t(need), errno});
    if (agent_) agent_gone();
  }

  bool watch(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    return ::epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  }

  // Workers are reaped and reported in the order in which epoll lists them, which is that of their deaths.
  Ready wait(int timeout_ms) {
    epoll_event events[64];
    const int n = ::epoll_wait(events_.get(), events, int(std::size(events)), timeout_ms);
    Ready ready;
    if (n < 0 && errno != EINTR) {
      if (agent_) fail(GuardNeed::waiting);
      ::poll(nullptr, 0, kSweepAgainMs);  // without news the guard looks again and again, until nothing is left
    }
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
    if (const auto stopped = workers_.stopped_by_terminal())
      send({GuardOp::stopped, stopped->local_rank, stopped->signal});
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
        round_ = Round{};
        round_.spawns_to_come = m.a;
        round_.open = true;
        killing_ = false;
        break;
      case GuardOp::spawn:
        start_worker(received);
        break;
      case GuardOp::signal_workers:
        workers_.signal(m.a);
        break;
      case GuardOp::suspend:
        signal_everything(SIGSTOP, workers_.pids());
        suspension_ = Suspension{m.a, std::chrono::steady_clock::now() + kStops};
        break;
      case GuardOp::resume:
        suspension_.reset();
        signal_everything(SIGCONT, workers_.pids());
        break;
      case GuardOp::stop_groups:
        note_stop();
        round_.turns.signal_workers(m.a, workers_.pids());
        break;
      case GuardOp::stop_rest:
        round_.turns.signal_rest(m.a);
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
    --round_.spawns_to_come;
    round_.open = true;  // all may have ended before this one took a place
    SpawnResult result{-1, UniqueFd(), SpawnStep::none, ECANCELED};
    ExecPayload payload;
    if (!round_.broken && payload.map(received.fds[0].get())) {
      const bool bound = size_t(local_rank) < settings_.cpus.size();
      result =
          spawn({payload.argv(), payload.envp(), received.fds[1].get(), received.fds[2].get(), received.fds[3].get(),
                 received.fds[4].get(), received.fds[5].get(), cgroup_.get(), settings_.cgroup_procs_fd,
                 settings_.nofile, session, bound ? &settings_.cpus[size_t(local_rank)] : nullptr});
    }
    if (result.pid >= 0 && !watch(result.pidfd.get())) result = call_off(result.pid, errno);
    if (result.pid < 0) {
      // The round cannot succeed, and no more of its workers are started. One in the place of another is not needed.
      if (round_.spawns_to_come >= 0) round_.broken = true;
      send({GuardOp::not_started, local_rank, int32_t(result.step), result.error});
      return;
    }
    const bool pidns = settings_.level == Containment::pidns;
    send({GuardOp::started, local_rank, 0, 0, pidns ? 0 : result.pid}, pidns ? result.pidfd.get() : -1);
    round_.turns.worker_started(result.pid);
    workers_.add({local_rank, result.pid, std::move(result.pidfd), session != Session::own});
  }

  // A worker whose end the guard could not see must not run.
  static SpawnResult call_off(pid_t worker, int error) {
    ::kill(-worker, SIGKILL);  // not reaped yet, so the number is the worker's
    return {-1, UniqueFd(), SpawnStep::watch, error};
  }

  // Milliseconds until the guard must look at something although no event has come; -1: there is nothing of that kind.
  int until_look() const {
    if (more_dead_) return 0;
    if (suspension_) return kStoppedAgainMs;
    if (killing_) return kSweepAgainMs;
    const int fence = until_fence(), rest = waits_for_rest() ? int(StopTurns::kSettles.count()) : -1;
    return fence < 0 || rest < 0 ? std::max(fence, rest) : std::min(fence, rest);
  }

  bool waits_for_rest() const {
    return round_.open && round_.spawns_to_come <= 0 && workers_.empty() && round_.turns.waits_for_rest();
  }

  // Before its answer a worker may still take what is typed for the shell: see all_stopped().
  void report_suspended() {
    if (!suspension_) return;
    if (!all_stopped(::getpid()) && std::chrono::steady_clock::now() < suspension_->answer_by) return;
    send({GuardOp::suspended, -1, suspension_->number});
    suspension_.reset();
  }

  void report_rest() {
    if (killing_ || !waits_for_rest() || no_children()) return;
    if (round_.turns.rest_is_due(std::chrono::steady_clock::now())) send({GuardOp::rest_left});
  }

  // Milliseconds until the fence may have passed; 0: it has. -1: there is no fence, or nobody whom it would stop.
  int until_fence() const {
    if (settings_.fence == nullptr || !round_.open) return -1;
    const auto left = settings_.fence->left().value_or(settings_.fence_every);
    const auto wait = std::min<Duration>(left, settings_.fence_every);
    return int(std::max(std::chrono::ceil<std::chrono::milliseconds>(wait), std::chrono::milliseconds(0)).count());
  }

  // The agent should have stopped the workers before: it does not run, or not well enough.
  void keep_fence() {
    note_stop();
    killing_ = true;
    send({GuardOp::fenced});
  }

  // A worker that is dead by now died by itself.
  void note_stop() {
    wait(0);
    round_.stopping = true;
  }

  void kill_all() {
    if (no_children()) {
      killing_ = false;
      return;
    }
    cgroup_.reset();  // see open_to_clone_into()
    kill_round_(workers_);
  }

  void reap_worker(int pidfd) {
    if (settings_.survivors && !round_.stopping) workers_.kill_group_of_failed(pidfd);
    const auto ended = workers_.reap(pidfd);
    if (!ended) return;
    send({GuardOp::exited, ended->local_rank, ended->code, ended->status, ended->pid, round_.stopping});
  }

  // Without an agent nobody asks for the order of deaths.
  void reap_orphans() {
    using DeadWorkers = GuardedWorkers::DeadWorkers;
    more_dead_ = workers_.reap_orphans(agent_ ? DeadWorkers::wait_for_their_turn : DeadWorkers::are_reaped_too);
  }

  void report_if_empty() {
    if (!round_.open || round_.spawns_to_come > 0 || !no_children()) return;
    round_.open = false;
    send({GuardOp::empty});
  }

  void agent_gone() {
    pollfd end{agent_.get(), 0, 0};
    if (::poll(&end, 1, 0) != 1 || (end.revents & POLLHUP) == 0) failed_ = true;  // the agent is there yet
    agent_.reset();
    round_.open = false;
    killing_ = true;
    give_up_at_ = std::chrono::steady_clock::now() + kGuardGivesUp;
  }

  const GuardSettings settings_;
  const KillRound kill_round_;
  UniqueFd agent_;
  UniqueFd events_;  // epoll: the agent, SIGCHLD, the pidfd of each worker
  UniqueFd child_ended_;
  UniqueFd cgroup_;  // for workers to begin in
  GuardedWorkers workers_;
  Round round_;
  std::optional<Suspension> suspension_;  // not answered yet
  bool more_dead_ = false;                // children that are not reaped yet, perhaps
  bool killing_ = false;
  SweepPace pace_;
  bool failed_ = false;
  std::chrono::steady_clock::time_point give_up_at_{};
};

// If agent and front were killed together, a script would go on with the terminal of a dead worker. In a PID namespace
// a group outside has no number (0), so the guard can mend only the modes.
void give_back(const AttachedTerminal& terminal, Containment level) {
  if (level != Containment::pidns && !terminal.with_owner()) terminal.take_back();
  if (level == Containment::pidns && terminal.foreground() > 0) terminal.restore_modes();
}

}  // namespace

void guard_main(const GuardSettings& settings, UniqueFd agent) {
  // The name is without "dtrain": after `pkill -9 dtrain` somebody must be left to clean up.
  ::prctl(PR_SET_NAME, "dt-guard");
  // What the terminal sends to the job must not reach the guard. Only a process of the session can hand the terminal
  // on.
  if (settings.terminal != nullptr)
    ::setpgid(0, 0);
  else
    ::setsid();
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  const bool agent_has_left = Guard(settings, std::move(agent)).run();
  if (settings.terminal != nullptr) give_back(*settings.terminal, settings.level);
  if (!settings.cgroup_folder.empty()) remove_cgroup(settings.cgroup_folder);
  if (settings.notes != nullptr && agent_has_left) remove_what_is_left(*settings.notes);
  ::_exit(0);
}

}  // namespace dtrain::launcher
