#include "launcher/job/group_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "rendezvous/base/check.h"
#include "rendezvous/base/counted.h"

namespace dtrain::launcher {

namespace {
template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

// To a hundredth, for people.
double shown_seconds(Duration d) { return double(d / std::chrono::milliseconds(10)) / 100; }

// Whether the event ends the wait for the worker to blame.
bool ends_patience(const GroupEvent& event) {
  const auto* stopped = std::get_if<event::RoundStopped>(&event);
  return std::holds_alternative<event::TimerFired>(event) || std::holds_alternative<event::GuardLost>(event) ||
         std::holds_alternative<event::HostLost>(event) || std::holds_alternative<event::JobEnded>(event) ||
         (stopped != nullptr && stopped->signal != 0);
}
}  // namespace

const char* to_string(GroupState state) {
  switch (state) {
    case GroupState::starting:
      return "starting";
    case GroupState::running:
      return "running";
    case GroupState::stopping:
      return "stopping";
    case GroupState::killing:
      return "killing";
    case GroupState::finished:
      return "finished";
    case GroupState::waiting:
      return "waiting";
  }
  return "?";
}

const char* to_string(const GroupEvent& event) {
  static constexpr const char* kNames[] = {"worker started",    "worker not started", "worker exited", "rest left",
                                           "containment empty", "output closed",      "stop signal",   "passed signal",
                                           "timer fired",       "guard lost",         "round opened",  "round stopped",
                                           "host lost",         "job ended"};
  static_assert(std::size(kNames) == std::variant_size_v<GroupEvent>);
  return kNames[event.index()];
}

GroupCore::GroupCore(GroupSettings settings)
    : settings_(settings), workers_(settings.workers), fates_(settings.workers), incarnations_(settings.workers) {
  DT_CHECK(settings.workers >= 1, "a group has at least one worker");
  DT_CHECK(settings.max_restarts >= 0, "the budget is a count");
  DT_CHECK(settings.survivors >= 0, "survivors are a count");
}

std::vector<GroupAction> GroupCore::start(MonoTime) {
  Actions out;
  if (!settings_.agreed) {
    open_round(out);
    return out;
  }
  state_ = GroupState::waiting;
  std::fill(workers_.begin(), workers_.end(), Worker::done);
  empty_ = output_closed_ = true;
  return out;
}

void GroupCore::open_round(Actions& out) {
  state_ = GroupState::starting;
  std::fill(workers_.begin(), workers_.end(), Worker::pending);
  cause_ = StopCause::success;
  first_failure_.reset();
  accused_ = {};
  awaits_cause_ = false;
  reported_ = -1;
  std::fill(incarnations_.begin(), incarnations_.end(), 0);
  well_ = lost_ = 0;
  for (int i = 0; i < settings_.workers; ++i) fates_[std::size_t(i)] = {base_rank_ + i, std::nullopt};
  empty_ = output_closed_ = false;
  out.push_back(action::StartRound{round_, restarts_});
}

std::vector<GroupAction> GroupCore::step(const GroupEvent& event, MonoTime now) {
  Actions out;
  if (state_ == GroupState::finished) return out;
  if (settles_at_ && now >= *settles_at_) settle_failure(out);
  // A stop signal is handed to the workers in place of that for the failure: each gets one.
  if (awaits_cause_ && std::holds_alternative<event::StopSignal>(event)) begin_failure(now, out);
  if (awaits_cause_ && ends_patience(event)) stop_for_failure(now, out);
  std::visit(Overloaded{
                 [&](const event::WorkerStarted& e) {
                   if (workers_.at(e.local_rank) == Worker::pending) workers_[e.local_rank] = Worker::alive;
                   if (state_ == GroupState::starting && count(Worker::pending) == 0) state_ = GroupState::running;
                 },
                 [&](const event::WorkerNotStarted& e) {
                   if (incarnations_.at(e.local_rank) == 0) never_started_ = true;
                   worker_ended(e.local_rank, e.status, {}, now, out);
                 },
                 [&](const event::WorkerExited& e) { worker_ended(e.local_rank, e.status, e.told, now, out); },
                 [&](const event::RestLeft&) { rest_left(out); },
                 [&](const event::ContainmentEmpty&) {
                   // While workers are still to come or to be reported, an empty moment means nothing.
                   empty_ = count(Worker::done) == settings_.workers;
                   maybe_round_over(now, out);
                 },
                 [&](const event::OutputClosed&) {
                   output_closed_ = true;
                   maybe_round_over(now, out);
                 },
                 [&](const event::StopSignal& e) {
                   orphan_ = stop_signal_ == 0 ? e.orphan : orphan_;
                   stop_signal(e.signal, now, out);
                 },
                 [&](const event::PassedSignal& e) { out.push_back(action::SignalWorkers{e.signal}); },
                 [&](const event::TimerFired&) { timer_fired(now, out); },
                 [&](const event::GuardLost& e) { guard_lost(e.reason, now, out); },
                 [&](const event::RoundOpened& e) { round_opened(e, out); },
                 [&](const event::RoundStopped& e) { round_stopped(e, now, out); },
                 [&](const event::HostLost& e) { host_lost(e, now, out); },
                 [&](const event::JobEnded& e) { job_ended(e, now, out); },
             },
             event);
  return out;
}

void GroupCore::worker_ended(int local_rank, const ExitStatus& status, Testimony told, MonoTime now, Actions& out) {
  if (workers_.at(local_rank) == Worker::done) return;
  workers_[local_rank] = Worker::done;
  if (told.since == MonoTime{}) told.since = now;
  fates_[std::size_t(local_rank)].status = status;
  fates_[std::size_t(local_rank)].told = std::move(told);
  const bool outlived = !status.success() && others_go_on(local_rank);
  if (active() && status.success()) ++well_;
  if (settings_.survivors > 0 && active())
    out.push_back(action::WorkerGone{local_rank, incarnations_[std::size_t(local_rank)], status.success(), outlived});
  if (outlived)
    go_on_without(local_rank, status, out);
  else if (awaits_cause_ || (!status.success() && !first_failure_ && active()))
    return failed(now, out);
  if (active() && count(Worker::done) == settings_.workers) {
    reason_ = fmt::format("{} ended with exit code 0", counted(settings_.workers - lost_, "worker"));
    begin_stop(StopCause::success, settings_.failure_grace, now, out);  // for what they have left behind
  }
  maybe_round_over(now, out);
}

void GroupCore::rest_left(Actions& out) {
  if (state_ != GroupState::stopping) return;
  out.push_back(action::TellRest{false});
  out.push_back(action::SignalRest{SIGTERM});
}

void GroupCore::begin_stop(StopCause cause, Duration grace, MonoTime now, Actions& out) {
  if (active()) stop_began_ = now;
  state_ = GroupState::stopping;
  cause_ = cause;
  // A stop on top of another adds no time: the other nodes wait no longer than this node has said to need.
  arm(std::min(now + grace, stop_began_ + std::max(settings_.shutdown_timeout, settings_.failure_grace)), out);
}

void GroupCore::arm(MonoTime at, Actions& out) {
  deadline_ = at;
  out.push_back(action::ArmTimer{settles_at_ ? std::min(at, *settles_at_) : at});
}

void GroupCore::begin_kill(GroupAction why, MonoTime now, Actions& out) {
  state_ = GroupState::killing;
  if (settles_at_) settle_failure(out);
  out.push_back(std::move(why));
  out.push_back(action::KillContainment{});
  arm(now + settings_.kill_timeout, out);
}

void GroupCore::stop_signal(int signal, MonoTime now, Actions& out) {
  if (state_ == GroupState::waiting) return stop_while_waiting(signal, now, out);
  if (state_ == GroupState::killing) {
    stop_signal_ = stop_signal_ ? stop_signal_ : signal;
    return;
  }
  if (stop_signal_ != 0) {
    begin_kill(action::Say{fmt::format("{} again: killing the workers now", signal_name(signal))}, now, out);
    return;
  }
  stop_signal_ = signal;
  const bool ended_well = !active() && cause_ == StopCause::success;
  // A node that ended well leaves without harm to the other nodes, so they hear of its good end first.
  if (settings_.agreed && !ended_well) report_leaving(out);
  if (ended_well) {
    begin_kill(action::Say{fmt::format("{}: killing what the workers left behind", signal_name(signal))}, now, out);
    return;
  }
  const bool was_active = withdraw_failure() || active();
  if (was_active) reason_ = fmt::format("stopped by {}", signal_name(signal));
  // A failure that came first stays the headline; the stop signal only cancels the restart and lengthens the grace.
  begin_stop(was_active ? StopCause::stop_signal : cause_, settings_.shutdown_timeout, now, out);
  out.push_back(action::Say{fmt::format("{}: passing it to the workers, SIGKILL in {:g} s (send it again to kill now)",
                                        signal_name(signal), shown_seconds(deadline_ - now))});
  out.push_back(action::SignalGroups{signal});
  maybe_round_over(now, out);  // only the failure had to settle
}

void GroupCore::timer_fired(MonoTime now, Actions& out) {
  if (state_ == GroupState::stopping && now < deadline_) {  // the timer was for the failure to settle
    arm(deadline_, out);
    maybe_round_over(now, out);
  } else if (state_ == GroupState::stopping) {
    const int left = settings_.workers - count(Worker::done);
    if (left == 0) return begin_kill(action::TellRest{true}, now, out);
    begin_kill(action::Say{fmt::format("{} of {} workers and what they started did not end in time: killing them", left,
                                       settings_.workers)},
               now, out);
  } else if (state_ == GroupState::killing) {
    finish(!empty_, out);
  } else if (state_ == GroupState::waiting) {
    unanswered(out);
  }
}

void GroupCore::guard_lost(const std::string& reason, MonoTime now, Actions& out) {
  // People need to see the worker that failed before.
  reason_ = first_failure_ ? reason_ + "; then " + reason : reason;
  guard_lost_ = true;
  if (!first_failure_) cause_ = StopCause::guard_lost;
  std::fill(workers_.begin(), workers_.end(), Worker::done);
  begin_kill(action::Say{reason}, now, out);
}

void GroupCore::maybe_round_over(MonoTime now, Actions& out) {
  const bool ending = state_ == GroupState::stopping || state_ == GroupState::killing;
  if (!ending || settles_at_ || !empty_ || !output_closed_ || count(Worker::done) != settings_.workers) return;
  if (cause_ == StopCause::failure && !guard_lost_) find_cause();      // now from the ends of all
  const bool alone = guard_lost_ || (hostless_ && stop_signal_ != 0);  // no host answers
  if (settings_.agreed && !verdict_ && !alone) {
    state_ = GroupState::waiting;
    out.push_back(action::CancelTimer{});
    if (cause_ == StopCause::failure && first_failure_ && *first_failure_ != reported_) report_failure(out);
    out.push_back(action::ReportOver{round_, cause_ == StopCause::success, last_to_leave(fates_)});
    if (stop_signal_ != 0 && !leaving_told_) report_leaving(out);
    if (!hostless_ && (cause_ != StopCause::success || stop_signal_ != 0)) wait_for_answer(now, out);
    return;
  }
  if (hostless_ && stop_signal_ != 0 && cause_ == StopCause::other_node) cause_ = StopCause::stop_signal;
  const bool again = !settings_.agreed && cause_ == StopCause::failure && !never_started_ && !guard_lost_ &&
                     stop_signal_ == 0 && restarts_ + replaced_ < settings_.max_restarts;
  if (!again) {
    finish(false, out);
    return;
  }
  ++restarts_;
  ++round_;
  out.push_back(action::CancelTimer{});
  out.push_back(action::Say{fmt::format("{}: restarting all workers (restart {} of {})", reason_, restarts_ + replaced_,
                                        settings_.max_restarts)});
  open_round(out);
}

void GroupCore::finish(bool processes_left, Actions& out) {
  state_ = GroupState::finished;
  if (verdict_) settle_with_others();
  out.push_back(action::CancelTimer{});
  out.push_back(action::Finish{{cause_, stop_signal_, restarts_ + replaced_, processes_left, first_failure_,
                                first_status_, accused_, reason_, verdict_}});
}

// ---- with other nodes -----------------------------------------------------------------------------------------------

void GroupCore::round_opened(const event::RoundOpened& e, Actions& out) {
  if (state_ != GroupState::waiting) return;
  if (stop_signal_ != 0) {  // the round was opened before the other nodes knew that this node leaves
    out.push_back(action::ReportOver{e.round, false});
    return;
  }
  round_ = e.round;
  restarts_ = e.restart_count;
  base_rank_ = e.base_rank;
  had_round_ = true;
  hostless_ = false;
  out.push_back(action::CancelTimer{});
  open_round(out);
}

void GroupCore::round_stopped(const event::RoundStopped& e, MonoTime now, Actions& out) {
  const int accused_here = e.accused.rank - base_rank_;
  if (accused_here >= 0 && accused_here < settings_.workers) {
    accused_ = e.accused;
    if (active() && !awaits_cause_) return failed(now, out);
  }
  if (!active() || awaits_cause_) return;
  reason_ = e.reason;
  out.push_back(action::Say{e.reason + ": stopping the workers of this node"});
  // If the user stopped another node, the workers here get the same signal, and the same time to save their work.
  begin_stop(StopCause::other_node, e.signal != 0 ? settings_.shutdown_timeout : settings_.failure_grace, now, out);
  out.push_back(action::SignalGroups{e.signal != 0 ? e.signal : SIGTERM});
}

void GroupCore::job_ended(const event::JobEnded& e, MonoTime now, Actions& out) {
  if (verdict_) return;
  verdict_ = e.verdict;
  if (state_ == GroupState::waiting) return finish(false, out);
  if (active() || e.grace) stop_for_others(e.verdict.reason, e.grace.value_or(settings_.failure_grace), now, out);
}

// Stops the workers for what happened on another node, at the latest after `grace`.
void GroupCore::stop_for_others(const std::string& why, Duration grace, MonoTime now, Actions& out) {
  grace = std::min(grace, settings_.failure_grace);
  if (active()) {
    reason_ = why;
    out.push_back(action::Say{why + ": stopping the workers of this node"});
    begin_stop(StopCause::other_node, grace, now, out);
    out.push_back(action::SignalGroups{SIGTERM});
  } else if (state_ == GroupState::stopping && now + grace < deadline_) {
    arm(now + grace, out);
  }
}

void GroupCore::host_lost(const event::HostLost& e, MonoTime now, Actions& out) {
  if (verdict_) return;
  hostless_ = true;
  had_round_ = false;
  if (state_ != GroupState::waiting) return stop_for_others(e.reason, e.grace, now, out);
  out.push_back(action::CancelTimer{});  // for an answer
  if (stop_signal_ == 0) return;
  cause_ = StopCause::stop_signal;
  finish(false, out);
}

// The verdict of all nodes decides, unless the cause concerns this node alone.
void GroupCore::settle_with_others() {
  const bool alone = guard_lost_ || (first_failure_ && cause_ == StopCause::failure && verdict_->how == JobEnd::lost);
  if (alone) {
    verdict_.reset();
  } else if (verdict_->how == JobEnd::failure) {
    cause_ = StopCause::failure;
  } else if (stop_signal_ != 0) {
    cause_ = StopCause::stop_signal;
    verdict_.reset();
  } else {
    cause_ = verdict_->how == JobEnd::success ? StopCause::success : StopCause::other_node;
  }
  if (verdict_) reason_ = verdict_->reason;
}

void GroupCore::stop_while_waiting(int signal, MonoTime now, Actions& out) {
  const bool again = stop_signal_ != 0;
  if (!again) stop_began_ = now;
  stop_signal_ = again ? stop_signal_ : signal;
  reason_ = fmt::format("stopped by {}", signal_name(stop_signal_));
  if (had_round_ && !again) {
    report_leaving(out);
    out.push_back(
        action::Say{fmt::format("{}: telling the other nodes (send it again to leave now)", signal_name(signal))});
    return wait_for_answer(now, out);
  }
  cause_ = StopCause::stop_signal;
  finish(false, out);
}

void GroupCore::report_leaving(Actions& out) {
  leaving_told_ = true;
  out.push_back(action::ReportLeaving{orphan_ ? 0 : stop_signal_, active() || settles_at_});
}

// The host answers when the last node has stopped its workers; every node may take as long as this one.
void GroupCore::wait_for_answer(MonoTime now, Actions& out) {
  const Duration stop = std::max(settings_.shutdown_timeout, settings_.failure_grace) + settings_.kill_timeout;
  arm(now + stop + settings_.answer_margin, out);
}

// The agent that hosts the rounds hangs: the outcome is this node's own.
void GroupCore::unanswered(Actions& out) {
  out.push_back(action::Say{"the agent that hosts the job does not answer: leaving it"});
  if (stop_signal_ != 0 && cause_ != StopCause::failure) cause_ = StopCause::stop_signal;
  finish(false, out);
}

int GroupCore::count(Worker what) const { return int(std::count(workers_.begin(), workers_.end(), what)); }

std::string GroupCore::describe() const {
  return fmt::format("round {} {}: {} of {} workers alive, {} restarts used", round_, to_string(state_),
                     count(Worker::alive), settings_.workers, restarts_);
}

}  // namespace dtrain::launcher
