#pragma once
// A job's state and progress as Kubeflow Trainer's status server takes them (KEP-2779): the body of a POST. Pure.
#include <cstdint>
#include <optional>
#include <string>

#include "launcher/progress/progress_file.h"
#include "rendezvous/base/clock.h"

namespace dtrain::launcher {

// What the agent of rank 0 knows of the job.
struct JobMoment {
  std::string state{};  // "running", "waiting", "stopping"; at the end "succeeded", "failed", "stopped"
  std::string why{};    // of an end
  int restarts = 0;
  int nodes = 1;
  int world_size = 1;
  bool operator==(const JobMoment&) const = default;
};

// How long the steps that are left take, by those since the first that was seen.
class StepPace {
 public:
  void saw(const Progress& progress, MonoTime now);
  // None: nothing was seen, or not enough.
  std::optional<double> seconds_left() const { return seconds_left_; }

 private:
  std::int64_t first_step_ = 0;
  std::optional<MonoTime> first_at_{};
  std::optional<double> seconds_left_{};
};

// `progress`: null before the program has told any. `wall_time`: when it was true, as iso_time() has it.
std::string trainer_status(const JobMoment& job, const Progress* progress, std::optional<double> seconds_left,
                           const std::string& wall_time);

}  // namespace dtrain::launcher
