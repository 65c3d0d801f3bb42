#pragma once
// The life of one node's worker group, as a pure machine: step(event, now) -> actions. No process, clock or descriptor
// is touched here; the agent carries the actions out and feeds back what happened. test/sim runs it by the thousand.
//
//   starting --all started--> running --all exited 0--> stopping --empty--> finished (success)
//      |                         |                          |
//      +--not started, failure, stop signal--> stopping ----+--empty, restarts left--> starting (next round)
//                                                 |         +--empty--> finished
//                                              grace over
//                                                 v
//                                              killing --empty--> as from stopping; --kill deadline--> finished
//
// A job of several nodes (`agreed`) begins in `waiting`, and comes back to it when a round is over: the agent that
// hosts the job's rounds then opens the next one or ends the job, and what happens to the workers of one node is
// reported.
//
//   waiting --round opened--> starting ... stopping, killing --empty--> waiting --job ended--> finished
//                                                                        waiting --no answer--> finished
//
// Where the host is lost but not the job, the workers stop, and it waits for the next round of whoever hosts it then.
// After success it waits as long as the others run; else the host owes an answer, and does not get forever.
//
// "empty" means: no process of the round is left (the guard says so) and its output has been read to the end.
#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/exit_status.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/round_messages.h"

namespace dtrain::launcher {

struct GroupSettings {
  int workers = 1;                                       // >= 1
  int max_restarts = 0;                                  // failures that open another round; >= 0
  Duration failure_grace = std::chrono::seconds(5);      // TERM to KILL after a failure
  Duration shutdown_timeout = std::chrono::seconds(30);  // stop signal to KILL
  Duration kill_timeout = std::chrono::seconds(8);       // KILL to giving up
  // Where a stop signal goes to every process of the job by itself, a worker may die of it before the agent has it. So
  // long the first failure of a round is kept back, and a stop signal that comes takes its place. 0: not at all.
  Duration failure_settles{0};
  bool agreed = false;  // other nodes have a say in when a round begins and ends
  // For the agent that hosts the rounds to answer, after the time that stopping all workers may take.
  Duration answer_margin = std::chrono::seconds(30);
};

enum class GroupState { starting, running, stopping, killing, finished, waiting };
inline constexpr int kGroupStates = 6;
const char* to_string(GroupState state);

// ---- what happened -------------------------------------------------------------------------------------------------
namespace event {
struct WorkerStarted {
  int local_rank;
};
struct WorkerNotStarted {
  int local_rank;
  ExitStatus status;
};  // kind not_started
struct WorkerExited {
  int local_rank;
  ExitStatus status;
};
struct ContainmentEmpty {};  // the guard has no process of this round left
struct OutputClosed {};      // every pipe of this round was read to its end
struct StopSignal {
  int signal;
};  // the user or the system wants the job to end
struct PassedSignal {
  int signal;
};                     // to be handed to the workers, the job goes on
struct TimerFired {};  // the one timer that ArmTimer set
struct GuardLost {
  std::string reason;
};  // nobody can start or watch workers any more
// From the agent that hosts the rounds, in a job of several nodes.
struct RoundOpened {
  int round;
  int restart_count;
};
struct RoundStopped {
  int signal;  // for the workers, the user's own; 0: the usual
  std::string reason;
};  // what happened on another node ends the round here as well
// The agent that hosts the rounds is gone, or this node is cut off from it; there may be another one, or the same
// later.
struct HostLost {
  std::string reason;
  Duration grace;  // for the workers to end: the others may soon go on without this node
};
struct JobEnded {
  Verdict verdict;
  // For the workers to end, if less than usual: the others may soon go on without this node.
  std::optional<Duration> grace{};
};
}  // namespace event
using GroupEvent =
    std::variant<event::WorkerStarted, event::WorkerNotStarted, event::WorkerExited, event::ContainmentEmpty,
                 event::OutputClosed, event::StopSignal, event::PassedSignal, event::TimerFired, event::GuardLost,
                 event::RoundOpened, event::RoundStopped, event::HostLost, event::JobEnded>;
const char* to_string(const GroupEvent& event);

// ---- what to do ----------------------------------------------------------------------------------------------------
// other_node: what happened elsewhere, see Outcome::verdict.
enum class StopCause { success, failure, stop_signal, guard_lost, other_node };

struct Outcome {
  StopCause cause = StopCause::success;
  int stop_signal = 0;          // cause stop_signal
  int restarts = 0;             // rounds opened after failures
  bool processes_left = false;  // some process survived SIGKILL until kill_timeout
  // First failing worker of the last round, if any failed.
  std::optional<int> first_failure;
  ExitStatus first_status;
  std::string reason;  // one line: why the job ended
  // Of the whole job, where several nodes agreed on it.
  std::optional<Verdict> verdict;
};

namespace action {
struct StartRound {
  int round;
  int restart_count;
};  // fresh store, then spawn every worker
struct SignalContainment {
  int signal;
};  // to every process of the round
struct SignalWorkers {
  int signal;
};                          // to the worker processes alone
struct KillContainment {};  // SIGKILL to every process of the round
struct ArmTimer {
  MonoTime at;
};  // replaces the one before
struct CancelTimer {};
struct Finish {
  Outcome outcome;
};
struct Say {
  std::string text;
};  // the reason of a decision, for the user
// To the agent that hosts the rounds, in a job of several nodes.
struct ReportFailure {
  int round;
  int local_rank;
  ExitStatus status;
};
struct ReportOver {
  int round;
  bool ok;
};  // nothing is left of the round here
struct ReportLeaving {
  int signal;
  bool running;  // until now: the workers
};               // the user stops this node
}  // namespace action
using GroupAction = std::variant<action::StartRound, action::SignalContainment, action::SignalWorkers,
                                 action::KillContainment, action::ArmTimer, action::CancelTimer, action::Finish,
                                 action::Say, action::ReportFailure, action::ReportOver, action::ReportLeaving>;

class GroupCore {
 public:
  explicit GroupCore(GroupSettings settings);

  // Begin round 0, or to wait for it. Call once.
  std::vector<GroupAction> start(MonoTime now);
  // Take in one event. Never fails: an event that means nothing in this state gives no action.
  std::vector<GroupAction> step(const GroupEvent& event, MonoTime now);

  GroupState state() const { return state_; }
  int round() const { return round_; }
  int restarts() const { return restarts_; }
  // Workers dtrain told to stop because another failed; their signals are consequences, not causes.
  bool stopping_since_failure() const { return cause_ == StopCause::failure; }
  // One line for people: state, round, workers alive.
  std::string describe() const;

 private:
  using Actions = std::vector<GroupAction>;
  enum class Worker { pending, alive, done };

  void open_round(Actions& out);
  void worker_ended(int local_rank, const ExitStatus& status, MonoTime now, Actions& out);
  void begin_stop(StopCause cause, Duration grace, MonoTime now, Actions& out);
  void arm(MonoTime at, Actions& out);
  void begin_kill(const std::string& why, MonoTime now, Actions& out);
  void first_failure(int local_rank, const ExitStatus& status, MonoTime now, Actions& out);
  void settle_failure(Actions& out);
  bool withdraw_failure();
  void stop_signal(int signal, MonoTime now, Actions& out);
  void timer_fired(MonoTime now, Actions& out);
  void guard_lost(const std::string& reason, MonoTime now, Actions& out);
  void maybe_round_over(MonoTime now, Actions& out);
  void round_opened(const event::RoundOpened& e, Actions& out);
  void round_stopped(const event::RoundStopped& e, MonoTime now, Actions& out);
  void host_lost(const event::HostLost& e, MonoTime now, Actions& out);
  void job_ended(const event::JobEnded& e, MonoTime now, Actions& out);
  void stop_for_others(const std::string& why, Duration grace, MonoTime now, Actions& out);
  void stop_while_waiting(int signal, MonoTime now, Actions& out);
  void settle_with_others();
  void report_leaving(Actions& out);
  void wait_for_answer(MonoTime now, Actions& out);
  void unanswered(Actions& out);
  void finish(bool processes_left, Actions& out);
  bool active() const { return state_ == GroupState::starting || state_ == GroupState::running; }
  int count(Worker what) const;

  GroupSettings settings_;
  GroupState state_ = GroupState::starting;
  int round_ = 0;
  int restarts_ = 0;
  std::vector<Worker> workers_;
  StopCause cause_ = StopCause::success;
  int stop_signal_ = 0;
  bool leaving_told_ = false;
  bool never_started_ = false;
  bool guard_lost_ = false;
  MonoTime deadline_{};    // of the armed timer
  MonoTime stop_began_{};  // of the present round
  std::optional<int> first_failure_;
  ExitStatus first_status_;
  std::optional<MonoTime> settles_at_;  // the first failure counts from then on
  std::string reason_;
  std::optional<Verdict> verdict_;
  bool had_round_ = false;  // of the host that there is
  bool hostless_ = false;   // since the last round was opened
  bool empty_ = false;
  bool output_closed_ = false;
};

}  // namespace dtrain::launcher
