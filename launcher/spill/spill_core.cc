#include "launcher/spill/spill_core.h"

#include <algorithm>

namespace dtrain::launcher {
namespace {

// SLURM ends a job at its time, and signals it before.
constexpr auto kBeforeItsEnd = std::chrono::seconds(5);

// The nodes know the time of the stop that was planned to a second, and it takes a moment to come to all of them.
constexpr auto kPlannedStopComes = std::chrono::seconds(5);

bool goes_to_queue(const StateFiles& files, MonoTime now) { return files.asked && now >= *files.asked; }

bool is_planned_stop(const StateFiles& files, MonoTime stop_began) {
  return goes_to_queue(files, stop_began) && stop_began <= *files.asked + kPlannedStopComes;
}

// Its part of the state is nowhere, so what the others would write is of no use, and older files may be whole.
bool part_is_lost(const JobSpec& spec, const Outcome& outcome) {
  const bool node_lost = outcome.verdict && outcome.verdict->how == JobEnd::lost;
  return node_lost && spec.state_files->nodes > 1 && !spec.copy_state;
}

}  // namespace

StateEnd state_end(const JobSpec& spec, const Outcome& outcome, MonoTime now) {
  const StateFiles& files = *spec.state_files;
  if (outcome.cause == StopCause::success) return StateEnd::remove;
  if (outcome.processes_left) return StateEnd::leave;  // they may still write
  if (part_is_lost(spec, outcome)) return StateEnd::leave;
  if (goes_to_queue(files, now)) return StateEnd::spill;
  const bool failed = outcome.cause == StopCause::failure || outcome.cause == StopCause::guard_lost;
  if (failed && !files.after_failure) return StateEnd::leave;
  return StateEnd::ask;
}

MonoTime spill_deadline(const JobSpec& spec, const Outcome& outcome, MonoTime stop_began, MonoTime now) {
  const StateFiles& files = *spec.state_files;
  const bool in_queue = goes_to_queue(files, now);
  if (in_queue && is_planned_stop(files, stop_began)) return files.ends - kBeforeItsEnd;
  // Whoever stops a job has been told that it takes so long. Nobody else is in a hurry.
  const MonoTime told = (in_queue || outcome.stop_signal != 0 ? stop_began : now) + spec.shutdown_timeout;
  return in_queue ? std::min(told, files.ends - kBeforeItsEnd) : told;
}

}  // namespace dtrain::launcher
