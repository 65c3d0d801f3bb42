#pragma once
// The life of one node's worker group, as a pure machine: step(event, now) -> actions. No process, clock or descriptor
// is touched here; the agent carries the actions out and feeds back what happened. group_core_test.cc has the table of
// states and events; test/sim runs the machine through thousands of orders of events.
//
//   starting --all started--> running --all exited 0--> stopping --empty--> finished (success)
//      |                         |                          |
//      +--not started, failure, stop signal--> stopping ----+--empty, restarts left--> starting (next round)
//                                                 |         +--empty--> finished
//                                              grace over
//                                                 v
//                                              killing --empty--> as from stopping; --kill deadline--> finished
//
// A job of several nodes (`agreed`) begins in `waiting` and returns to `waiting` when a round is over. The core reports
// what happens to the workers of its node; the agent that hosts the job's rounds opens the next round or ends the job.
//
//   waiting --round opened--> starting ... stopping, killing --empty--> waiting --job ended--> finished
//                                                                        waiting --no answer--> finished
//
// When the host is lost, the workers stop, and the core waits for the next round of whoever hosts the job then. After a
// success the core waits as long as other nodes run. After anything else the host owes an answer, and has a deadline.
//
// Stopping is one request in two turns: the workers and their process groups get the signal at once; processes that
// the workers started outside of their groups get SIGTERM when the workers have ended. The deadline is set when the
// stop begins: no worker that ends brings the deadline nearer (docs/adr/0005-a-stop-is-one-request.md).
//
// With `survivors`, a worker that fails while all run does not end the round as long as so many workers of this node
// are alive: the program meets again without that worker (docs/training/survivors.md). While restarts are left, a new
// process takes the worker's place, and joins the others.
//
// "empty" means: no process of the round is left (the guard says so) and its output has been read to the end.
//
// Who is to blame, as root_cause() says from the ends that are known by then, is provisional while workers still end:
// a worker that ends later may have failed earlier. The core asks again when the round is over, and corrects what it
// has reported to other nodes. The failure report asks the same function about the same testimony.
#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/job/exit_status.h"
#include "launcher/job/root_cause.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/rounds/round_messages.h"

namespace dtrain::launcher {

struct GroupSettings {
  int workers = 1;       // >= 1
  int max_restarts = 0;  // failures that open another round, or give a worker's place to a new process; >= 0
  int survivors = 0;     // the round goes on while so many workers of this node are alive; 0: a failure ends the round
  // SIGTERM to SIGKILL after a failure. The worker to blame gets the same time before the SIGTERM to end by itself, if
  // it is about to.
  Duration failure_grace = std::chrono::seconds(5);
  Duration shutdown_timeout = std::chrono::seconds(30);  // stop signal to KILL
  Duration kill_timeout = std::chrono::seconds(8);       // KILL to giving up
  // Some senders (Ctrl-C, SLURM) signal every process of the job, so a worker may die before the agent hears of the
  // signal. Hold the first failure of a round back for this long; a stop signal that arrives meanwhile is the cause
  // instead. 0: report at once.
  Duration failure_settles{0};
  bool agreed = false;  // other nodes have a say in when a round begins and ends
  // How long the agent that hosts the rounds may take to answer, on top of the time that stopping all workers may take.
  Duration answer_margin = std::chrono::seconds(30);
};

enum class GroupState { starting, running, stopping, killing, finished, waiting };
inline constexpr int kGroupStates = 6;
const char* to_string(GroupState state);

// ---- what happened -------------------------------------------------------------------------------------------------
// Why a node leaves its host if it has let its fence pass (fence.h): nobody else is to blame then.
inline constexpr const char* kDidNotRun = "this agent did not run for so long that the others may have gone on";

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
  Testimony told{};
};
struct RestLeft {};          // the workers and their process groups are gone, processes that they started are left
struct ContainmentEmpty {};  // the guard has no process of this round left
struct OutputClosed {};      // every pipe of this round was read to its end
struct StopSignal {
  int signal;
  bool orphan = false;  // the engine that has started this node for the job is gone
};                      // the user or the system wants the job to end
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
  int base_rank = 0;  // of local rank 0
};
struct RoundStopped {
  int signal;  // for the workers, the user's own; 0: the usual
  std::string reason;
  Blame accused{};  // whom the workers that failed there blame
};                  // the round ends here too, for what happened on another node
// The agent that hosts the rounds is gone, or this node is cut off from that agent. Another agent may host the rounds
// later, or the same one again.
struct HostLost {
  std::string reason;
  Duration grace;  // for the workers to end: the other nodes may soon go on without this one
};
struct JobEnded {
  Verdict verdict;
  // For the workers to end, if less than usual: the other nodes may soon go on without this one.
  std::optional<Duration> grace{};
};
}  // namespace event
using GroupEvent = std::variant<event::WorkerStarted, event::WorkerNotStarted, event::WorkerExited, event::RestLeft,
                                event::ContainmentEmpty, event::OutputClosed, event::StopSignal, event::PassedSignal,
                                event::TimerFired, event::GuardLost, event::RoundOpened, event::RoundStopped,
                                event::HostLost, event::JobEnded>;
const char* to_string(const GroupEvent& event);

// ---- what to do ----------------------------------------------------------------------------------------------------
// other_node: the cause was on another node, see Outcome::verdict.
enum class StopCause { success, failure, stop_signal, guard_lost, other_node };

struct Outcome {
  StopCause cause = StopCause::success;
  int stop_signal = 0;          // cause stop_signal
  int restarts = 0;             // rounds opened after failures
  bool processes_left = false;  // some process survived SIGKILL until kill_timeout
  // The local rank to blame for the end of the last round, if any is, and the failure that gives the exit code.
  // Provisional: if the guard was lost, or a process survived SIGKILL, not every end was known.
  std::optional<int> first_failure;
  ExitStatus first_status;
  Blame accused;       // by workers of other nodes
  std::string reason;  // one line: why the job ended
  // On the whole job, if several nodes agreed on its end.
  std::optional<Verdict> verdict;
};

namespace action {
struct StartRound {
  int round;
  int restart_count;
};  // fresh store, then spawn every worker
// With `survivors`: the others are to learn that this worker does not come any more.
struct WorkerGone {
  int local_rank;
  int incarnation;  // 0: it was started with the round
  bool well;        // with exit code 0
  bool outlived;    // it failed, and the others go on
};
struct ReplaceWorker {
  int local_rank;
  int incarnation;
};  // spawn a new process in the place of the one that is gone
struct SignalGroups {
  int signal;
};  // a request to end: to every worker and its process group
struct SignalRest {
  int signal;
};  // the same request: to processes that are left when the groups have ended, and have not had the signal
struct SignalWorkers {
  int signal;
};  // to the worker processes alone
struct TellRest {
  bool too_late;            // the processes have had their time; else they are asked to end now
};                          // name the processes to the user that the workers have left behind
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
// Provisional: a later ReportFailure of the same round, before its ReportOver, takes the place of this one.
struct ReportFailure {
  int round;
  int local_rank;
  ExitStatus status;   // of the failure that gives the exit code; a success: the failure of another node gives it
  std::string what{};  // how the worker ended
  Blame blame{};       // the rank of another node that it blames
};
struct ReportOver {
  int round;
  bool ok;
  int left = Blame::kNobody;  // last_to_leave()
};                            // nothing is left of the round here
struct ReportLeaving {
  int signal;
  bool running;  // until now: the workers
};               // the user stops this node; signal 0: its engine has lost it
}  // namespace action
using GroupAction = std::variant<action::StartRound, action::WorkerGone, action::ReplaceWorker, action::SignalGroups,
                                 action::SignalRest, action::SignalWorkers, action::TellRest, action::KillContainment,
                                 action::ArmTimer, action::CancelTimer, action::Finish, action::Say,
                                 action::ReportFailure, action::ReportOver, action::ReportLeaving>;

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
  // When the workers of the last round, or this node without workers, were asked to end.
  MonoTime stop_began() const { return stop_began_; }
  // Whether the workers are told to stop because one failed: how they end then is a consequence, not a cause.
  bool stopping_since_failure() const { return cause_ == StopCause::failure; }
  // One line for people: state, round, workers alive.
  std::string describe() const;

 private:
  using Actions = std::vector<GroupAction>;
  enum class Worker { pending, alive, done };

  void open_round(Actions& out);
  void worker_ended(int local_rank, const ExitStatus& status, Testimony told, MonoTime now, Actions& out);
  void begin_stop(StopCause cause, Duration grace, MonoTime now, Actions& out);
  void arm(MonoTime at, Actions& out);
  void begin_kill(GroupAction why, MonoTime now, Actions& out);
  void rest_left(Actions& out);
  bool others_go_on(int local_rank) const;
  void go_on_without(int local_rank, const ExitStatus& status, Actions& out);
  void failed(MonoTime now, Actions& out);
  bool cause_is_to_come() const;
  void find_cause();
  void stop_for_failure(MonoTime now, Actions& out);
  void begin_failure(MonoTime now, Actions& out);
  void settle_failure(Actions& out);
  void report_failure(Actions& out);
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
  int base_rank_ = 0;  // of local rank 0, in this round
  std::vector<Worker> workers_;
  std::vector<Fate> fates_;        // of this round, by local rank
  std::vector<int> incarnations_;  // of this round, by local rank: processes before the present one
  int replaced_ = 0;               // workers of all rounds; each takes a restart
  int well_ = 0;                   // workers of this round that have ended with 0 by themselves
  int lost_ = 0;                   // workers of this round that have failed, and nobody took their place
  Blame accused_;
  StopCause cause_ = StopCause::success;
  int stop_signal_ = 0;
  bool orphan_ = false;  // the first stop signal came since the engine is gone
  bool leaving_told_ = false;
  bool never_started_ = false;
  bool guard_lost_ = false;
  MonoTime deadline_{};               // of the armed timer
  MonoTime stop_began_{};             // of the present round, or while waiting
  std::optional<int> first_failure_;  // provisional until the round is over
  ExitStatus first_status_;
  int reported_ = -1;                   // the local rank that the last ReportFailure named; -1: none
  bool awaits_cause_ = false;           // a worker has failed, and the worker that it blames is about to end
  std::optional<MonoTime> settles_at_;  // until then a stop signal takes the place of the first failure
  std::string reason_;
  std::optional<Verdict> verdict_;
  bool had_round_ = false;  // opened by the present host
  bool hostless_ = false;   // since the last round was opened
  bool empty_ = false;
  bool output_closed_ = false;
};

}  // namespace dtrain::launcher
