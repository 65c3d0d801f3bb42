#include "launcher/agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "launcher/containment.h"
#include "launcher/exit_codes.h"
#include "launcher/group_core.h"
#include "launcher/guard.h"
#include "launcher/guard_link.h"
#include "launcher/job_record.h"
#include "launcher/log_tree.h"
#include "launcher/output_router.h"
#include "launcher/proc_info.h"
#include "launcher/sweep.h"
#include "launcher/worker_env.h"
#include "launcher/worker_pipes.h"
#include "rendezvous/store_host.h"

extern char** environ;

namespace dtrain::launcher {

namespace asio = boost::asio;

namespace {

constexpr auto kDrainOutput = std::chrono::seconds(5);   // at the end, for a console that takes its time
constexpr auto kGuardEnds = std::chrono::seconds(2);     // an idle guard ends at once; this bounds the wait

std::vector<std::string> parent_environment() {
  std::vector<std::string> all;
  for (char** e = environ; *e != nullptr; ++e) all.emplace_back(*e);
  return all;
}

GroupSettings group_settings(const JobSpec& spec) {
  return {spec.nproc_per_node, spec.max_restarts, spec.failure_grace, spec.shutdown_timeout, spec.kill_timeout};
}

ExitStatus status_from(const GuardMessage& m) {
  if (m.op == GuardOp::not_started) return ExitStatus::not_started(SpawnStep(m.a), m.b);
  if (m.a == CLD_EXITED) return ExitStatus::exited(m.b);
  return ExitStatus::signaled(m.b, m.a == CLD_DUMPED);
}

}  // namespace

class Agent {
 public:
  Agent(const JobSpec& spec, FrontSide front, GuardHandle guard, ChosenContainment containment, LogTree logs)
      : spec_(spec),
        guard_pid_(guard.pid),
        containment_(std::move(containment)),
        logs_(std::move(logs)),
        core_(group_settings(spec)),
        front_(io_, front.socket.release()),
        signals_(io_),
        core_timer_(io_),
        output_timer_(io_),
        output_(router_options()),
        pipes_(io_, spec.nproc_per_node, pipe_callbacks()),
        guard_(io_, std::move(guard.socket), [this](ReceivedGuardMessage& m) { on_guard(m); }, [this] { on_guard_lost(); }),
        record_(spec, containment_.cgroup.folder()) {}

  int run();

 private:
  OutputRouter::Options router_options();
  WorkerPipes::Callbacks pipe_callbacks();

  // events in
  void watch_signals();
  void on_signals();
  void watch_front();
  void on_front();
  void on_guard(ReceivedGuardMessage& received);
  void on_guard_lost();
  void on_child_of_ours();
  void feed(const GroupEvent& event);
  bool on_data(int stream, std::string_view bytes);

  // actions out
  void perform(const GroupAction& action);
  void start_round(const action::StartRound& round);
  std::optional<Error> start_worker(const Assignment& assignment, int local_rank);
  UniqueFd stdin_for(int local_rank) const;
  void kill_containment();
  void sweep_ourselves();
  void finish(const Outcome& outcome);

  void say(const std::string& text);
  void resume_paused();
  void arm_output_timer();
  int close_down();

  const JobSpec& spec_;
  pid_t guard_pid_;
  ChosenContainment containment_;
  LogTree logs_;
  SteadyClock clock_;
  asio::io_context io_{1};
  GroupCore core_;
  asio::posix::stream_descriptor front_;
  asio::posix::stream_descriptor signals_;
  asio::steady_timer core_timer_;
  asio::steady_timer output_timer_;
  OutputRouter output_;
  WorkerPipes pipes_;
  GuardLink guard_;
  std::unique_ptr<StoreHost> store_;
  JobRecord record_;
  std::vector<std::string> parent_env_ = parent_environment();
  std::vector<StreamId> stream_ids_;   // by pipe stream
  std::vector<int> paused_;            // pipe streams
  std::optional<Outcome> outcome_;
  int direct_stop_ = 0;  // a stop signal that was sent to the agent itself, see on_signals()
  bool guard_alive_ = true;
};

OutputRouter::Options Agent::router_options() {
  OutputRouter::Options options;
  options.on_room = [this] { asio::post(io_, [this] { resume_paused(); }); };
  return options;
}

WorkerPipes::Callbacks Agent::pipe_callbacks() {
  return {[this](int stream, std::string_view bytes) { return on_data(stream, bytes); },
          [this](int stream) { output_.end(stream_ids_[size_t(stream)], clock_.now()); },
          [this] { asio::post(io_, [this] { feed(event::OutputClosed{}); }); }};
}

int Agent::run() {
  watch_signals();
  watch_front();
  if (!spec_.quiet) {
    say(fmt::format("{} workers of {}, containment {}{}{}", spec_.nproc_per_node, spec_.program,
                    to_string(containment_.level), containment_.reason.empty() ? "" : ": " + containment_.reason,
                    logs_.path().empty() || !(spec_.tee.any() || spec_.redirects.any()) ? "" : ", logs in " + logs_.path()));
  }
  for (const auto& a : core_.start(clock_.now())) perform(a);
  io_.run();
  return close_down();
}

// ---- events in ------------------------------------------------------------------------------------------------------

void Agent::watch_signals() {
  sigset_t mask;
  ::sigemptyset(&mask);
  for (const int s : spec_.stop_signals) ::sigaddset(&mask, s);
  for (const int s : spec_.passed_signals) ::sigaddset(&mask, s);
  ::sigaddset(&mask, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &mask, nullptr);
  if (!signals_.is_open()) signals_.assign(::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  signals_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& ec) {
    if (ec) return;
    on_signals();
    watch_signals();
  });
}

// Signals reach the job through the front. One sent to the agent itself counts too, but only as a first request: with
// `pkill dtrain` both get it, and that is one request, not two.
void Agent::on_signals() {
  signalfd_siginfo info;
  while (signals_.is_open() && ::read(signals_.native_handle(), &info, sizeof info) == sizeof info) {
    const int signal = int(info.ssi_signo);
    if (signal == SIGCHLD) {
      on_child_of_ours();
    } else if (std::find(spec_.stop_signals.begin(), spec_.stop_signals.end(), signal) != spec_.stop_signals.end()) {
      if (direct_stop_ == 0) feed(event::StopSignal{direct_stop_ = signal});
    } else {
      feed(event::PassedSignal{signal});
    }
  }
}

void Agent::watch_front() {
  front_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& ec) {
    if (!ec) on_front();
  });
}

void Agent::on_front() {
  FrontMessage m;
  const ssize_t n = ::recv(front_.native_handle(), &m, sizeof m, MSG_DONTWAIT);
  if (n != ssize_t(sizeof m)) {
    // The front was killed: nobody waits for this job any more. Closing down ends the guard, which kills everything.
    record_.front_lost();
    io_.stop();
    return;
  }
  if (m.op == FrontMessage::Op::suspend) {
    guard_.send({GuardOp::signal_containment, -1, SIGSTOP});
    m.op = FrontMessage::Op::suspended;
    ::send(front_.native_handle(), &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT);
  } else if (m.op == FrontMessage::Op::resume) {
    guard_.send({GuardOp::signal_containment, -1, SIGCONT});
  } else if (std::find(spec_.stop_signals.begin(), spec_.stop_signals.end(), m.signal) == spec_.stop_signals.end()) {
    feed(event::PassedSignal{m.signal});
  } else if (direct_stop_ == m.signal) {
    direct_stop_ = -1;  // the same request by the other way; the next one counts
  } else {
    direct_stop_ = -1;
    feed(event::StopSignal{m.signal});
  }
  watch_front();
}

void Agent::on_guard(ReceivedGuardMessage& received) {
  const GuardMessage& m = received.message;
  const MonoTime now = clock_.now();
  switch (m.op) {
    case GuardOp::started:
      record_.started(m.local_rank, m.pid != 0 ? m.pid : pid_of_pidfd(received.fds[0].get()), now);
      feed(event::WorkerStarted{m.local_rank});
      break;
    case GuardOp::not_started:
    case GuardOp::exited: {
      const ExitStatus status = status_from(m);
      record_.ended(m.local_rank, status, now);
      if (m.op == GuardOp::exited) feed(event::WorkerExited{m.local_rank, status});
      else feed(event::WorkerNotStarted{m.local_rank, status});
      break;
    }
    case GuardOp::empty: feed(event::ContainmentEmpty{}); break;
    default: break;
  }
}

void Agent::on_guard_lost() {
  guard_alive_ = false;
  if (!outcome_) feed(event::GuardLost{fmt::format("the guard (pid {}) is gone", guard_pid_)});
}

// The guard is the only child until it is gone; then, as a subreaper, we inherit what it left.
void Agent::on_child_of_ours() {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG) != 0) {
      if (!guard_alive_ && !outcome_) feed(event::ContainmentEmpty{});
      return;
    }
    if (info.si_pid == 0) break;
    if (info.si_pid == guard_pid_ && info.si_code == CLD_STOPPED) ::kill(guard_pid_, SIGKILL);
  }
  if (!guard_alive_) sweep_ourselves();
}

bool Agent::on_data(int stream, std::string_view bytes) {
  const StreamId id = stream_ids_[size_t(stream)];
  record_.output(stream, bytes);
  output_.feed(id, bytes, clock_.now());
  if (!output_.wants_pause(id)) return true;
  paused_.push_back(stream);
  arm_output_timer();
  return false;
}

void Agent::resume_paused() {
  std::vector<int> still;
  for (const int stream : paused_) {
    if (output_.wants_pause(stream_ids_[size_t(stream)])) still.push_back(stream);
    else pipes_.resume(stream);
  }
  paused_ = std::move(still);
  arm_output_timer();
}

// Runs only while a sink is stuck; an idle or flowing job sets no timer.
void Agent::arm_output_timer() {
  const auto at = output_.deadline();
  if (!at) {
    output_timer_.cancel();
    return;
  }
  output_timer_.expires_at(*at);
  output_timer_.async_wait([this](const boost::system::error_code& ec) {
    if (ec) return;
    output_.on_time(clock_.now());
    resume_paused();
  });
}

void Agent::feed(const GroupEvent& event) {
  for (const auto& a : core_.step(event, clock_.now())) perform(a);
}

// ---- actions out ----------------------------------------------------------------------------------------------------

void Agent::perform(const GroupAction& action) {
  if (const auto* a = std::get_if<action::StartRound>(&action)) {
    start_round(*a);
  } else if (const auto* signal_all = std::get_if<action::SignalContainment>(&action)) {
    record_.stopping();
    guard_.send({GuardOp::signal_containment, -1, signal_all->signal});
  } else if (const auto* signal_workers = std::get_if<action::SignalWorkers>(&action)) {
    guard_.send({GuardOp::signal_workers, -1, signal_workers->signal});
  } else if (std::holds_alternative<action::KillContainment>(action)) {
    kill_containment();
  } else if (const auto* timer = std::get_if<action::ArmTimer>(&action)) {
    core_timer_.expires_at(timer->at);
    core_timer_.async_wait([this](const boost::system::error_code& ec) {
      if (!ec) feed(event::TimerFired{});
    });
  } else if (std::holds_alternative<action::CancelTimer>(action)) {
    core_timer_.cancel();
  } else if (const auto* words = std::get_if<action::Say>(&action)) {
    say(words->text);
  } else if (const auto* end = std::get_if<action::Finish>(&action)) {
    finish(end->outcome);
  }
}

void Agent::start_round(const action::StartRound& round) {
  record_.begin_round();
  stream_ids_.assign(size_t(spec_.nproc_per_node) * 2, 0);
  guard_.send({GuardOp::begin_round, -1, spec_.nproc_per_node});
  // A new round must not see keys of the last one, so it gets a store of its own, up before the first worker.
  store_.reset();
  std::optional<Error> failed;
  StoreHost::Options options;
  options.allowed_uid = ::geteuid();
  auto store = StoreHost::start(options);
  if (store) store_ = std::move(*store);
  else failed = store.error();

  Assignment assignment;
  assignment.round = round.round;
  assignment.restart_count = round.restart_count;
  assignment.world_size = assignment.role_world_size = spec_.nproc_per_node;
  assignment.master_addr = "127.0.0.1";
  assignment.master_port = store_ ? store_->port() : 0;
  for (int i = 0; i < spec_.nproc_per_node; ++i) {
    if (!failed) failed = start_worker(assignment, i);
    // The guard counts its spawns: one without a payload is answered with `not started`.
    if (failed) guard_.send({GuardOp::spawn, i});
  }
  if (failed) say(failed->message);
}

std::optional<Error> Agent::start_worker(const Assignment& assignment, int local_rank) {
  auto files = logs_.open_worker(assignment.restart_count, local_rank,
                                 Streams(unsigned(spec_.redirects.of(local_rank)) | unsigned(spec_.tee.of(local_rank))));
  if (!files) return files.error();
  const auto dollars = spec_.collapse_double_dollar ? DoubleDollar::collapse : DoubleDollar::keep;
  std::vector<std::string> argv;
  for (const auto& arg : spec_.argv) argv.push_back(substitute_local_rank(arg, local_rank, dollars));
  record_.files(local_rank, files->paths);
  auto payload = write_exec_payload(
      argv, launcher::apply(parent_env_, worker_env(spec_, assignment, local_rank, {files->paths.error_file})));
  if (!payload) return payload.error();
  auto ends = pipes_.open(local_rank);
  if (!ends) return ends.error();

  const int rank = assignment.base_rank + local_rank;
  const std::string prefix = record_.prefix(local_rank, rank);
  for (const Streams which : {Streams::out, Streams::err}) {
    const bool only_file = has(spec_.redirects.of(local_rank), which) && !has(spec_.tee.of(local_rank), which);
    const bool out = which == Streams::out;
    const bool interactive = spec_.stdin_mode.kind == StdinMode::Kind::rank && spec_.stdin_mode.local_rank == local_rank;
    stream_ids_[size_t(2 * local_rank + (out ? 0 : 1))] =
        output_.open_stream({rank, which, !only_file, prefix, interactive, std::move(out ? files->out : files->err),
                             out ? files->paths.out : files->paths.err});
  }
  std::vector<UniqueFd> fds;
  fds.push_back(std::move(*payload));
  fds.push_back(stdin_for(local_rank));
  fds.push_back(std::move(ends->out));
  fds.push_back(std::move(ends->err));
  guard_.send({GuardOp::spawn, local_rank}, std::move(fds));
  return std::nullopt;
}

UniqueFd Agent::stdin_for(int local_rank) const {
  using Kind = StdinMode::Kind;
  const StdinMode& mode = spec_.stdin_mode;
  const bool ours = mode.kind == Kind::all || (mode.kind == Kind::rank && mode.local_rank == local_rank);
  UniqueFd fd(ours ? ::fcntl(0, F_DUPFD_CLOEXEC, 3) : -1);
  if (!fd) fd.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return fd;
}

void Agent::kill_containment() {
  record_.stopping();
  if (guard_alive_) {
    guard_.send({GuardOp::kill});
    return;
  }
  if (containment_.cgroup.exists()) containment_.cgroup.kill();
  sweep_ourselves();
  // With nothing left there is no child whose end would tell us so.
  asio::post(io_, [this] { on_child_of_ours(); });
}

void Agent::sweep_ourselves() { kill_descendants(::getpid()); }

void Agent::say(const std::string& text) { output_.note("dtrain: " + text); }

void Agent::finish(const Outcome& outcome) {
  outcome_ = outcome;
  if (outcome.processes_left) {
    for (const pid_t pid : descendants(::getpid(), {guard_pid_})) say(describe_stuck_process(pid));
  }
  io_.stop();
}

// ---- the end --------------------------------------------------------------------------------------------------------

int Agent::close_down() {
  store_.reset();
  guard_.close();
  pipes_.close_all();
  const int code = record_.conclude(outcome_, logs_, [this](const std::string& text) { output_.note(text); });
  output_.finish(clock_.now() + kDrainOutput);
  for (const Loss& loss : output_.losses()) {
    const std::string line = "dtrain: " + describe(loss) + "\n";
    [[maybe_unused]] const auto n = ::write(2, line.data(), line.size());
  }
  if (outcome_ && outcome_->processes_left) ::kill(guard_pid_, SIGKILL);
  wait_for_exit(guard_pid_, kGuardEnds);
  containment_.cgroup.remove();
  logs_.remove_if_empty();
  return code;
}

namespace {

int refuse(const Error& error) {
  std::fprintf(stderr, "dtrain: %s\n", error.message.c_str());
  return kExitOwnFailure;
}

}  // namespace

int run_agent(const JobSpec& spec, FrontSide front) {
  ::prctl(PR_SET_NAME, "dtrain-agent");
  // A group of its own: what the terminal or a shell sends to the job's group comes through the front, once.
  ::setpgid(0, 0);
  ::signal(SIGTTOU, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);  // should the front die while we are stopped
  rlimit user_limit{};
  ::getrlimit(RLIMIT_NOFILE, &user_limit);
  const rlimit raised{user_limit.rlim_max, user_limit.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &raised);

  auto containment = choose_containment(spec.containment, fmt::format("{}-{}", file_name_safe(spec.run_id), ::getpid()));
  if (!containment) return refuse(containment.error());
  std::snprintf(front.notes->cgroup_folder, sizeof front.notes->cgroup_folder, "%s",
                containment->cgroup.folder().c_str());
  auto guard = start_guard({containment->level, containment->cgroup.folder(), containment->cgroup.procs_fd(), user_limit});
  if (!guard) {
    containment->cgroup.remove();
    return refuse(guard.error());
  }
  front.notes->guard = guard->pid;
  auto logs = LogTree::create(spec);
  if (!logs) return refuse(logs.error());
  return Agent(spec, std::move(front), std::move(*guard), std::move(*containment), std::move(*logs)).run();
}

}  // namespace dtrain::launcher
