#include "launcher/spill/spill_core.h"

namespace dtrain::launcher {
namespace {

// SLURM ends a job at its time, and signals it before.
constexpr auto kBeforeItsEnd = std::chrono::seconds(5);

bool goes_to_queue(const StateFiles& files, MonoTime now) { return files.asked && now >= *files.asked; }

}  // namespace

StateEnd state_end(const StateFiles& files, const Outcome& outcome, MonoTime now) {
  if (outcome.cause == StopCause::success) return StateEnd::remove;
  if (outcome.processes_left) return StateEnd::leave;  // they may still write
  if (goes_to_queue(files, now)) return StateEnd::spill;
  const bool failed = outcome.cause == StopCause::failure || outcome.cause == StopCause::guard_lost;
  if (failed && !files.after_failure) return StateEnd::leave;
  return StateEnd::ask;
}

MonoTime spill_deadline(const JobSpec& spec, const Outcome& outcome, MonoTime stop_began, MonoTime now) {
  if (goes_to_queue(*spec.state_files, now)) return spec.state_files->ends - kBeforeItsEnd;
  // Whoever stops a job has been told that it takes so long. Nobody else is in a hurry.
  return (outcome.stop_signal != 0 ? stop_began : now) + spec.shutdown_timeout;
}

}  // namespace dtrain::launcher
