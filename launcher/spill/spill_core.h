#pragma once
// What becomes of the kept state when the job ends (--state-dir). Pure.
#include "launcher/job/group_core.h"
#include "launcher/job/job_spec.h"
#include "rendezvous/base/clock.h"

namespace dtrain::launcher {

enum class StateEnd {
  spill,   // it goes to files, for the next run
  ask,     // the same, if StateFiles::next_run says that there may be one
  remove,  // all is done: the files of the job go
  leave,   // the files that are there stay
};

// `spec`: of a job that has files.
StateEnd state_end(const JobSpec& spec, const Outcome& outcome, MonoTime now);

// When the files must be complete. `stop_began`: when the workers were asked to end.
MonoTime spill_deadline(const JobSpec& spec, const Outcome& outcome, MonoTime stop_began, MonoTime now);

}  // namespace dtrain::launcher
