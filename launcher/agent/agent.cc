#include "launcher/agent/agent.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>

#include "launcher/agent/agent_setup.h"
#include "launcher/agent/agent_status.h"
#include "launcher/agent/round_start.h"
#include "launcher/agent/state_keeper.h"
#include "launcher/base/last_words.h"
#include "launcher/front/front_channel.h"
#include "launcher/guard/guard_channel.h"
#include "launcher/hosting/node_rounds.h"
#include "launcher/job/exit_codes.h"
#include "launcher/job/group_core.h"
#include "launcher/output/worker_output.h"
#include "launcher/process/left_behind.h"
#include "launcher/process/proc_info.h"
#include "launcher/process/sweep.h"
#include "launcher/report/job_lines.h"
#include "launcher/report/job_record.h"
#include "launcher/terminal/terminal_line.h"
#include "rendezvous/base/counted.h"
#include "rendezvous/base/printable.h"
#include "rendezvous/base/say.h"

namespace dtrain::launcher {

namespace asio = boost::asio;

namespace {

constexpr auto kDrainOutput = std::chrono::seconds(5);  // at the end, for a console that takes its time
constexpr auto kStoppedGuardLease = std::chrono::seconds(3);
constexpr std::size_t kLongestLine = 4000;

int refuse(const std::string& lead, const Error& error) {
  std::fprintf(stderr, "dtrain: %s%s\n", lead.c_str(), printable(error.message, kLongestLine).c_str());
  return error.kind == ErrorKind::usage ? kExitUsage : kExitOwnFailure;
}

}  // namespace

class Agent {
 public:
  // `parts` outlive the agent.
  Agent(const JobSpec& spec, FrontSide front, AgentParts& parts)
      : spec_(spec),
        guard_pid_(parts.guard.pid),
        containment_(parts.containment),
        logs_(parts.logs),
        core_(group_settings(spec)),
        front_(io_, std::move(front.socket), spec, front_callbacks()),
        notes_(*front.notes),
        terminal_(front.terminal),
        core_timer_(io_),
        guard_lease_(io_),
        output_(io_, spec.nproc_per_node, spec.console,
                {[this](int stream, std::string_view bytes) { record_.output(stream, bytes); },
                 [this] { feed(event::OutputClosed{}); }}),
        guard_(
            io_, std::move(parts.guard.socket), [this](ReceivedGuardMessage& m) { on_guard(m); },
            [this] { on_guard_lost(); }),
        record_(spec, containment_.cgroup.folder(), [this](const std::string& text) { output_.note(text); }),
        say_([this](const std::string& text) { say(text); }),
        rounds_(io_, spec, say_,
                {[this](const GroupEvent& e) { feed(e); }, [this](const std::string& text) { show(text); },
                 [this](std::optional<MonoTime> at) { notes_.fence.set(at, SteadyClock::now()); },
                 [this] { return notes_.fence.passed(); }}),
        states_(spec, say_),
        round_start_({spec, terminal_, logs_, rounds_, guard_, output_, record_, states_}),
        status_(io_, {spec, core_, record_.workers(), rounds_, notes_, say_}) {}

  int run();

 private:
  // events in
  FrontChannel::Callbacks front_callbacks();
  void on_front_lost();
  void on_guard(ReceivedGuardMessage& received);
  void on_guard_lost();
  void on_child_of_ours();
  void guard_stopped();
  void feed(const GroupEvent& event);

  // actions out
  void perform(const GroupAction& action);
  void started(const std::optional<Error>& failed);
  void tell_rest(bool too_late);
  void kill_containment();
  void finish(const Outcome& outcome);

  void say(const std::string& text);
  void say_notes_of_logs();
  void say_who_reads();
  void show(const std::string& text);
  int close_down();

  const JobSpec& spec_;
  pid_t guard_pid_;
  ChosenContainment& containment_;
  LogTree& logs_;
  asio::io_context io_{1};
  GroupCore core_;
  FrontChannel front_;
  JobNotes& notes_;
  const AttachedTerminal* terminal_;  // null: no worker is attached
  asio::steady_timer core_timer_;
  asio::steady_timer guard_lease_;
  WorkerOutput output_;
  GuardChannel guard_;
  JobRecord record_;
  const Say say_;  // say(), for the parts of the agent
  NodeRounds rounds_;
  StateKeeper states_;
  RoundStart round_start_;
  AgentStatus status_;
  std::optional<Outcome> outcome_;
  uint64_t timer_armed_ = 0;  // number of the core's present timer
  bool guard_alive_ = true;
  bool guard_reaped_ = false;  // its number may be another's
  bool reaps_again_ = false;   // on_child_of_ours() is posted
  SweepPace pace_;
  std::optional<std::string> guard_failure_;
  bool said_kept_back_ = false;
  bool said_shared_ = false;
};

int Agent::run() {
  front_.watch();
  const std::string about_status = status_.open();
  if (!spec_.quiet) {
    say(start_line(spec_, logs_.path()));
    if (spec_.verbose || containment_.blind) say(containment_.about());
    if (!about_status.empty()) say(about_status);
  }
  say_notes_of_logs();
  states_.load([this] { return front_.asked_to_end(); });
  if (const auto open = rounds_.open(); !open) {
    say(open.error().message);
    return close_down();
  }
  for (const auto& a : core_.start(SteadyClock::now())) perform(a);
  io_.run();
  return close_down();
}

// ---- events in ------------------------------------------------------------------------------------------------------

FrontChannel::Callbacks Agent::front_callbacks() {
  return {[this](const event::StopSignal& stop) { feed(stop); },
          [this](int signal) { feed(event::PassedSignal{signal}); },
          [this](int number) {
            guard_.send({GuardOp::suspend, -1, number});
          },
          [this] {
            guard_.send({GuardOp::resume});
            say_who_reads();
          },
          [this] { on_child_of_ours(); },
          [this] { on_front_lost(); }};
}

// The front was killed: nobody waits for this job any more. Closing down ends the guard, which kills everything.
void Agent::on_front_lost() {
  record_.front_lost();
  io_.stop();
}

void Agent::on_guard(ReceivedGuardMessage& received) {
  const GuardMessage& m = received.message;
  const MonoTime now = SteadyClock::now();
  switch (m.op) {
    case GuardOp::started:
      record_.started(m.local_rank, m.pid != 0 ? m.pid : pid_of_pidfd(received.fds[0].get()), now);
      feed(event::WorkerStarted{m.local_rank});
      break;
    case GuardOp::not_started:
    case GuardOp::exited: {
      front_.read_signals();  // a stop that was sent to all processes, as SLURM may, comes before the deaths it causes
      const ExitStatus status = exit_status_of(m);
      if (!status.success()) output_.drain();  // its last words tell why
      const Testimony told = record_.ended(m.local_rank, status, m.after_stop != 0, now);
      if (terminal_ != nullptr && m.local_rank == spec_.attach) terminal_->take_back(m.pid);
      if (m.op == GuardOp::exited)
        feed(event::WorkerExited{m.local_rank, status, told});
      else
        feed(event::WorkerNotStarted{m.local_rank, status});
      break;
    }
    case GuardOp::suspended:
      front_.suspended(m.a);
      break;
    case GuardOp::stopped:
      front_.attached_stopped(record_.workers().row(m.local_rank).pid, m.a);
      break;
    // Before the deaths that it has caused. What has become of the host is found out by those who wait for it.
    case GuardOp::fenced:
      feed(event::HostLost{kDidNotRun, Duration{}});
      break;
    case GuardOp::rest_left:
      feed(event::RestLeft{});
      break;
    case GuardOp::failed:
      guard_failure_ = describe_failure(m);
      break;
    case GuardOp::empty:
      if (terminal_ != nullptr) terminal_->take_back();
      output_.drain();
      feed(event::ContainmentEmpty{});
      break;
    default:
      break;
  }
}

void Agent::on_guard_lost() {
  guard_alive_ = false;
  const std::string why = guard_failure_.value_or(fmt::format("the guard (pid {}) is gone", guard_pid_));
  if (!outcome_) feed(event::GuardLost{why});
}

// The guard is the only child until it is gone; then, as a subreaper, we inherit what it left.
void Agent::on_child_of_ours() {
  bool more = true;
  for (int n = 0; n < kReapedInARow; ++n) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WCONTINUED | WNOHANG) != 0) {
      if (!guard_alive_ && !outcome_) feed(event::ContainmentEmpty{});
      return;
    }
    more = info.si_pid != 0;
    if (!more) break;
    if (info.si_pid != guard_pid_ || guard_reaped_) continue;
    if (info.si_code != CLD_STOPPED && info.si_code != CLD_CONTINUED) guard_reaped_ = true;
    if (info.si_code == CLD_STOPPED)
      guard_stopped();
    else
      guard_lease_.cancel();
  }
  if (!guard_alive_ && pace_.due(more)) kill_descendants(::getpid());
  if (!more || std::exchange(reaps_again_, true)) return;
  asio::post(io_, [this] {
    reaps_again_ = false;
    on_child_of_ours();
  });
}

// Somebody may stop and continue all processes of a job; a guard that stays stopped guards nothing.
void Agent::guard_stopped() {
  guard_lease_.expires_after(kStoppedGuardLease);
  guard_lease_.async_wait([this](const boost::system::error_code& ec) {
    if (!ec && !guard_reaped_) ::kill(guard_pid_, SIGKILL);
  });
}

void Agent::feed(const GroupEvent& event) {
  for (const auto& a : core_.step(event, SteadyClock::now())) perform(a);
  status_.stepped();
}

// ---- actions out ----------------------------------------------------------------------------------------------------

void Agent::perform(const GroupAction& action) {
  if (const auto* a = std::get_if<action::StartRound>(&action)) {
    started(round_start_.begin(*a));
    status_.decided(
        fmt::format("round {} begins with {} on this node", a->round, counted(spec_.nproc_per_node, "worker")));
  } else if (const auto* gone = std::get_if<action::WorkerGone>(&action)) {
    if (gone->outlived) record_.outlived(gone->local_rank);
    rounds_.report(action);
  } else if (const auto* worker = std::get_if<action::ReplaceWorker>(&action)) {
    started(round_start_.replace(*worker));
  } else if (const auto* groups = std::get_if<action::SignalGroups>(&action)) {
    guard_.send({GuardOp::stop_groups, -1, groups->signal});
  } else if (const auto* rest = std::get_if<action::SignalRest>(&action)) {
    guard_.send({GuardOp::stop_rest, -1, rest->signal});
  } else if (const auto* signal_workers = std::get_if<action::SignalWorkers>(&action)) {
    guard_.send({GuardOp::signal_workers, -1, signal_workers->signal});
  } else if (const auto* tell = std::get_if<action::TellRest>(&action)) {
    tell_rest(tell->too_late);
  } else if (std::holds_alternative<action::KillContainment>(action)) {
    kill_containment();
  } else if (const auto* timer = std::get_if<action::ArmTimer>(&action)) {
    core_timer_.expires_at(timer->at);
    core_timer_.async_wait([this, armed = ++timer_armed_](const boost::system::error_code& ec) {
      // A timer that has gone off cannot be called back, but it can be told from the one that counts.
      if (!ec && armed == timer_armed_) feed(event::TimerFired{});
    });
  } else if (std::holds_alternative<action::CancelTimer>(action)) {
    ++timer_armed_;
    core_timer_.cancel();
  } else if (const auto* words = std::get_if<action::Say>(&action)) {
    say(words->text);
  } else if (const auto* end = std::get_if<action::Finish>(&action)) {
    finish(end->outcome);
  } else {
    rounds_.report(action);
  }
}

void Agent::started(const std::optional<Error>& failed) {
  say_notes_of_logs();
  say_who_reads();
  if (failed) say(failed->message);
  // Without a single pipe there is none whose end would tell.
  if (output_.all_closed()) asio::post(io_, [this] { feed(event::OutputClosed{}); });
}

// What ends in this moment is not worth a word.
void Agent::tell_rest(bool too_late) {
  const pid_t above = guard_alive_ ? guard_pid_ : ::getpid();
  const std::string text = too_late ? too_late_text(left_below(above)) : left_text(left_below_with_ranks(above));
  if (!text.empty()) say(text);
}

void Agent::kill_containment() {
  if (guard_alive_) {
    guard_.send({GuardOp::kill});
    return;
  }
  if (containment_.cgroup.exists()) containment_.cgroup.kill();
  kill_descendants(::getpid());
  // With nothing left there is no child whose end would tell us so.
  asio::post(io_, [this] { on_child_of_ours(); });
}

void Agent::say(const std::string& text) {
  status_.decided(text);
  show(text);
}

// Many lines have words of others in them: reasons, names of hosts, paths.
void Agent::show(const std::string& text) { output_.note(own_line(spec_.lead + printable(text, kLongestLine))); }

void Agent::say_notes_of_logs() {
  for (const std::string& note : logs_.take_notes()) say(note);
}

// Workers are in sessions of their own, so the kernel does not stop those of a background job that read the terminal.
void Agent::say_who_reads() {
  if (spec_.quiet) return;
  if (round_start_.keeps_terminal_back() && !std::exchange(said_kept_back_, true))
    say("another job has the terminal: workers read /dev/null");
  if (round_start_.shares_terminal() && !std::exchange(said_shared_, true))
    say("another job has the terminal, but workers may still read what is typed there (--stdin none prevents this)");
}

void Agent::finish(const Outcome& outcome) {
  outcome_ = outcome;
  if (outcome.processes_left && !can_find_processes()) say("processes are left, and /proc does not show which");
  if (outcome.processes_left) {
    for (const pid_t pid : descendants(guard_alive_ ? guard_pid_ : ::getpid())) say(describe_stuck_process(pid));
  }
  io_.stop();
}

int Agent::close_down() {
  if (!outcome_) guard_.close();  // the job was cut off: the guard kills the workers, and nothing is written
  status_.close(outcome_);
  if (!rounds_.agreed_on_end()) rounds_.close(outcome_);  // the others may go on, and wait for nothing here
  rounds_.close(outcome_, states_.close(outcome_, core_.stop_began(), io_));
  const int code = record_.conclude(outcome_, logs_);
  guard_.close();  // no sooner: at its end the guard removes empty folders
  notes_.interrupted = code == 128 + SIGINT && outcome_->cause == StopCause::stop_signal;
  end_guard(guard_reaped_ ? 0 : guard_pid_, containment_.cgroup, outcome_ && outcome_->processes_left);
  status_.wait_for_posts();
  output_.finish(SteadyClock::now() + kDrainOutput);
  for (const Loss& loss : output_.losses()) say_unless_stuck(spec_.lead + describe(loss));
  if (terminal_ != nullptr) terminal_->take_back();  // should the front be gone
  containment_.cgroup.remove();
  logs_.remove_if_empty();
  return code;
}

int run_agent(const JobSpec& spec, FrontSide front) {
  auto parts = set_up_agent(spec, *front.notes, front.terminal);
  if (!parts) return refuse(spec.lead, parts.error());
  try {
    return Agent(spec, std::move(front), *parts).run();
  } catch (const std::exception& e) {  // how Asio and the library say that descriptors, threads or memory ran out
    parts->guard.socket.reset();
    end_guard(parts->guard.pid, parts->containment.cgroup, false);
    parts->containment.cgroup.remove();
    parts->logs.remove_if_empty();
    return refuse(spec.lead, {ErrorKind::system,
                              fmt::format("the agent failed: {} (see `ulimit -n` and `ulimit -u`)", reason_of(e))});
  }
}

}  // namespace dtrain::launcher
