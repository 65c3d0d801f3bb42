// What becomes of the kept state at the end of a job.
#include "launcher/spill/spill_core.h"

#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::launcher;
using namespace std::chrono_literals;

namespace {

Outcome ended_by(StopCause cause, int signal = 0) {
  Outcome outcome;
  outcome.cause = cause;
  outcome.stop_signal = signal;
  return outcome;
}

constexpr MonoTime kNow{1h};

}  // namespace

TEST_CASE("the state outlives a job that may run again, and no other") {
  JobSpec spec;
  StateFiles& files = spec.state_files.emplace();
  CHECK(state_end(spec, ended_by(StopCause::success), kNow) == StateEnd::remove);
  CHECK(state_end(spec, ended_by(StopCause::stop_signal, 15), kNow) == StateEnd::ask);
  CHECK(state_end(spec, ended_by(StopCause::other_node), kNow) == StateEnd::ask);
  for (const auto cause : {StopCause::failure, StopCause::guard_lost}) {
    files.after_failure = false;
    CHECK(state_end(spec, ended_by(cause), kNow) == StateEnd::leave);
    files.after_failure = true;
    CHECK(state_end(spec, ended_by(cause), kNow) == StateEnd::ask);
  }
  Outcome stuck = ended_by(StopCause::stop_signal, 15);
  stuck.processes_left = true;
  CHECK(state_end(spec, stuck, kNow) == StateEnd::leave);
}

TEST_CASE("a job that was asked to end for the queue takes its state along, however its workers end") {
  JobSpec spec;
  StateFiles& files = spec.state_files.emplace();
  files.asked = kNow;
  for (const auto cause : {StopCause::failure, StopCause::stop_signal, StopCause::other_node}) {
    CHECK(state_end(spec, ended_by(cause), kNow) == StateEnd::spill);
    CHECK(state_end(spec, ended_by(cause), kNow - 1ns) != StateEnd::spill);
  }
  CHECK(state_end(spec, ended_by(StopCause::success), kNow) == StateEnd::remove);
}

TEST_CASE("a state is written before the job is killed") {
  JobSpec spec;
  spec.shutdown_timeout = 25s;
  spec.state_files.emplace();
  CHECK(spill_deadline(spec, ended_by(StopCause::stop_signal, 15), kNow - 3s, kNow) == kNow + 22s);
  CHECK(spill_deadline(spec, ended_by(StopCause::other_node), kNow - 3s, kNow) == kNow + 25s);
}

TEST_CASE("a planned stop has all the time that is left, and no other stop has") {
  JobSpec spec;
  spec.shutdown_timeout = 25s;
  StateFiles& files = spec.state_files.emplace();
  files.asked = kNow - 10s;
  files.ends = kNow + 110s;
  const auto deadline = [&](StopCause cause, MonoTime stop_began) {
    return spill_deadline(spec, ended_by(cause, 15), stop_began, kNow);
  };
  for (const auto cause : {StopCause::stop_signal, StopCause::other_node, StopCause::failure}) {
    CHECK(deadline(cause, kNow - 10s) == kNow + 105s);
    CHECK(deadline(cause, kNow - 8s) == kNow + 105s);
    // Somebody else stops it a moment before, or long after.
    CHECK(deadline(cause, kNow - 11s) == kNow + 14s);
    CHECK(deadline(cause, kNow - 3s) == kNow + 22s);
  }
  files.ends = kNow + 20s;
  CHECK(deadline(StopCause::stop_signal, kNow - 3s) == kNow + 15s);
}

TEST_CASE("a node that is lost leaves the files of all others as they are, unless there are copies") {
  JobSpec spec;
  StateFiles& files = spec.state_files.emplace();
  files.nodes = 2;
  files.asked = kNow;
  Outcome outcome = ended_by(StopCause::other_node);
  outcome.verdict.emplace().how = JobEnd::lost;
  for (const MonoTime now : {kNow - 1s, kNow}) {
    spec.copy_state = false;
    CHECK(state_end(spec, outcome, now) == StateEnd::leave);
    spec.copy_state = true;
    CHECK(state_end(spec, outcome, now) != StateEnd::leave);
  }
  spec.copy_state = false;
  outcome.verdict->how = JobEnd::stopped;
  CHECK(state_end(spec, outcome, kNow) == StateEnd::spill);
}
