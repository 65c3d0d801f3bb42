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
  StateFiles files;
  CHECK(state_end(files, ended_by(StopCause::success), kNow) == StateEnd::remove);
  CHECK(state_end(files, ended_by(StopCause::stop_signal, 15), kNow) == StateEnd::ask);
  CHECK(state_end(files, ended_by(StopCause::other_node), kNow) == StateEnd::ask);
  for (const auto cause : {StopCause::failure, StopCause::guard_lost}) {
    files.after_failure = false;
    CHECK(state_end(files, ended_by(cause), kNow) == StateEnd::leave);
    files.after_failure = true;
    CHECK(state_end(files, ended_by(cause), kNow) == StateEnd::ask);
  }
  Outcome stuck = ended_by(StopCause::stop_signal, 15);
  stuck.processes_left = true;
  CHECK(state_end(files, stuck, kNow) == StateEnd::leave);
}

TEST_CASE("a job that was asked to end for the queue takes its state along, however its workers end") {
  StateFiles files;
  files.asked = kNow;
  for (const auto cause : {StopCause::failure, StopCause::stop_signal, StopCause::other_node}) {
    CHECK(state_end(files, ended_by(cause), kNow) == StateEnd::spill);
    CHECK(state_end(files, ended_by(cause), kNow - 1ns) != StateEnd::spill);
  }
  CHECK(state_end(files, ended_by(StopCause::success), kNow) == StateEnd::remove);
}

TEST_CASE("a state is written before the job is killed") {
  JobSpec spec;
  spec.shutdown_timeout = 25s;
  spec.state_files.emplace();
  CHECK(spill_deadline(spec, ended_by(StopCause::stop_signal, 15), kNow - 3s, kNow) == kNow + 22s);
  CHECK(spill_deadline(spec, ended_by(StopCause::other_node), kNow - 3s, kNow) == kNow + 25s);
  spec.state_files->asked = kNow - 10s;
  spec.state_files->ends = kNow + 110s;
  CHECK(spill_deadline(spec, ended_by(StopCause::stop_signal, 15), kNow - 3s, kNow) == kNow + 105s);
}
