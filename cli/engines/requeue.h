#pragma once
// --requeue: a batch job of SLURM's has its workers save before its time is over, and goes back into the queue. Pure.
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/job/job_spec.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

// Times are from the start of dtrain.
struct RequeuePlan {
  std::string job{};   // SLURM's number
  Duration ask{};      // when the workers are asked to save
  Duration last{};     // when those that are still there are asked to end; not before `ask`
  bool leads = false;  // this node gives the job back
  Duration end{};      // of the job
  // The agents have the state and write it (--state-dir): so the workers need not save, and end at once.
  bool agents_write = false;
  bool together = true;  // the nodes are one job: one that is asked to end tells the others
};

// The signals that come by themselves on this node, of a job that began at this time.
std::vector<launcher::PlannedSignal> planned_signals(const RequeuePlan& plan, MonoTime began);

// From when on this node knows that the job goes back. SLURM counts in seconds, so the nodes differ by one.
Duration asked(const RequeuePlan& plan);

// What comes of a job that was stopped, and has run `restarts` times before. `scontrol_says`: as below, at its end.
launcher::NextRun next_run(std::string_view scontrol_says, int restarts);

// `scontrol_says`: of the job, `scontrol show job ID --oneliner`. `ahead`: how long before its end the workers are
// asked. `ending`: how long they have to end.
Result<RequeuePlan> plan_requeue(const std::string& job, std::string_view scontrol_says, Duration ahead,
                                 Duration ending);

// Whether a job that has ended with this code after this time goes back: its workers were asked to save, and have not
// done all that there was to do (0). A job that somebody stops before it is asked to end stays stopped.
bool goes_back(const RequeuePlan& plan, int code, Duration ran);

// "1-02:03:04" and shorter ones, as SLURM writes durations. An error: it is none, such as UNLIMITED.
Result<std::chrono::seconds> parse_slurm_duration(std::string_view text);

}  // namespace dtrain::cli
