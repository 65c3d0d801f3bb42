// A round that fails: who is to blame, and when the others are stopped and told. See group_core.h.
// Tested by test/unit/launcher/job/group_core_test.cc.
#include <fmt/format.h>

#include <csignal>
#include <utility>

#include "launcher/job/group_core.h"
#include "rendezvous/base/counted.h"

namespace dtrain::launcher {

// Before the first failure that ends the round. A process that took a place too late finds nobody whom it could join.
bool GroupCore::others_go_on(int local_rank) const {
  if (settings_.survivors == 0 || state_ != GroupState::running || awaits_cause_) return false;
  const bool too_late = well_ > 0 && incarnations_[std::size_t(local_rank)] > 0;
  return count(Worker::alive) >= settings_.survivors || too_late;
}

// Its end is no cause of what comes later: the others have gone on.
void GroupCore::go_on_without(int local_rank, const ExitStatus& status, Actions& out) {
  const auto at = std::size_t(local_rank);
  fates_[at] = {base_rank_ + local_rank, std::nullopt};
  const bool again =
      status.kind != ExitStatus::Kind::not_started && well_ == 0 && restarts_ + replaced_ < settings_.max_restarts;
  const std::string what =
      fmt::format("rank {} (local rank {}): {}; {} of this node left to go on", base_rank_ + local_rank, local_rank,
                  launcher::describe(status), counted(count(Worker::alive), "worker"));
  if (!again) {
    ++lost_;
    out.push_back(action::Say{what});
    return;
  }
  ++replaced_;
  ++incarnations_[at];
  workers_[at] = Worker::pending;
  empty_ = output_closed_ = false;
  out.push_back(action::Say{fmt::format("{}, and a new process takes its place (restart {} of {})", what,
                                        restarts_ + replaced_, settings_.max_restarts)});
  out.push_back(action::ReplaceWorker{local_rank, incarnations_[at]});
}

// A worker has failed, or other nodes blame a worker. All workers are stopped; but the worker to blame may end by
// itself before, so that its own end is seen and not that of a signal.
void GroupCore::failed(MonoTime now, Actions& out) {
  if (never_started_ || !cause_is_to_come()) return stop_for_failure(now, out);
  if (!std::exchange(awaits_cause_, true)) arm(now + settings_.failure_grace, out);
}

bool GroupCore::cause_is_to_come() const {
  const auto cause = root_cause(fates_, accused_);
  if (!cause || count(Worker::done) == settings_.workers) return false;
  // In a job of several nodes, the worker to blame is as likely on another node.
  if (cause->blame.rank == Blame::kSomebody) return !settings_.agreed;
  return workers_[cause->at] != Worker::done && cause->accusation.ends;
}

// From the ends that are known: provisional until the round is over.
void GroupCore::find_cause() {
  const auto cause = root_cause(fates_, accused_);
  if (!cause) return;
  const Fate& fate = fates_[cause->at];
  first_failure_ = int(cause->at);
  first_status_ = fates_[cause->failed].status.value_or(ExitStatus{});
  reason_ = fmt::format("local rank {}: {}", cause->at, describe_cause(fate, cause->accusation));
}

void GroupCore::stop_for_failure(MonoTime now, Actions& out) {
  begin_failure(now, out);
  out.push_back(action::SignalGroups{SIGTERM});
}

// What stop_for_failure() does, but for the signal.
void GroupCore::begin_failure(MonoTime now, Actions& out) {
  awaits_cause_ = false;
  find_cause();
  if (settings_.failure_settles > Duration::zero() && !never_started_)
    settles_at_ = now + settings_.failure_settles;
  else
    settle_failure(out);
  begin_stop(StopCause::failure, settings_.failure_grace, now, out);
}

void GroupCore::settle_failure(Actions& out) {
  settles_at_.reset();
  report_failure(out);
}

void GroupCore::report_failure(Actions& out) {
  const auto cause = root_cause(fates_, accused_);
  if (!settings_.agreed || verdict_ || !cause) return;
  reported_ = int(cause->at);
  out.push_back(action::ReportFailure{round_, reported_, fates_[cause->failed].status.value_or(ExitStatus{}),
                                      describe_cause(fates_[cause->at], cause->accusation), cause->blame});
}

// The failure was the first sign of a stop signal. False: there was no failure, or the failure counts already.
bool GroupCore::withdraw_failure() {
  if (!settles_at_) return false;
  settles_at_.reset();
  first_failure_.reset();
  return true;
}

}  // namespace dtrain::launcher
