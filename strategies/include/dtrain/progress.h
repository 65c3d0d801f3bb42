#pragma once
// How far the training is, told to the launcher. Where the launcher passes that on (Kubeflow Trainer's status server,
// docs/kubernetes.md), a job's progress, the time that is left and its metrics are seen from outside.
//
//   for (std::int64_t step = 1; step <= steps; ++step) {
//     ...
//     dtrain::report_progress({.step = step, .steps = steps, .metrics = {{"loss", loss}}});
//   }
//
// A program that calls nothing of this, and steps a dtrain::Parallel, reports the number of its steps since it was
// started, of all Parallels together.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dtrain {

struct Progress {
  std::int64_t step = 0;                 // that are done
  std::optional<std::int64_t> steps{};   // to do in all
  std::optional<double> seconds_left{};  // without: the launcher estimates it from the steps
  std::vector<std::pair<std::string, double>> metrics{};
};

// Not collective; any thread. Rank 0's progress is the job's: other ranks may call, to no effect. Writes a small file
// (DTRAIN_PROGRESS_FILE) at most twice a second, and always at the last step; where nobody reads it, a call costs some
// nanoseconds. A file that cannot be written is no reason for training to stop: then nothing is told.
void report_progress(const Progress& progress);

namespace detail {
// Parallel has made a step.
void step_done();
}  // namespace detail

}  // namespace dtrain
