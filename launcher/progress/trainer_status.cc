#include "launcher/progress/trainer_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "rendezvous/base/printable.h"

namespace dtrain::launcher {
namespace {

using StatusJson = nlohmann::ordered_json;

constexpr std::size_t kLongestOfMetric = 64;  // of a metric's name or value: the server refuses longer ones

std::string short_text(const std::string& text) {
  std::string whole = printable(text, 1000);
  if (whole.size() <= kLongestOfMetric) return whole;
  return std::string(first_characters(whole, kLongestOfMetric - 3)) + "...";
}

std::optional<int> percent_of(const Progress& progress) {
  if (progress.percent) return static_cast<int>(*progress.percent);
  if (!progress.step || !progress.steps || *progress.steps == 0) return std::nullopt;
  return static_cast<int>(100 * std::min(*progress.step, *progress.steps) / *progress.steps);
}

}  // namespace

void StepPace::saw(const Progress& progress, MonoTime now) {
  seconds_left_ = progress.seconds_left;
  if (!progress.step) return;
  // A new round may begin before the step that the last one has seen.
  if (!first_at_ || *progress.step < first_step_) {
    first_at_ = now;
    first_step_ = *progress.step;
  }
  const std::int64_t done = *progress.step - first_step_;
  if (seconds_left_ || !progress.steps || done == 0) return;
  const auto to_do = static_cast<double>(std::max<std::int64_t>(*progress.steps - *progress.step, 0));
  seconds_left_ = std::min(to_do * in_seconds(now - *first_at_) / static_cast<double>(done), kMostSecondsLeft);
}

std::string trainer_status(const JobMoment& job, const Progress* progress, std::optional<double> seconds_left,
                           const std::string& wall_time) {
  const bool done = job.state == "succeeded";
  StatusJson status = StatusJson::object();
  const auto percent = progress != nullptr ? percent_of(*progress) : std::nullopt;
  if (done || percent) status["progressPercentage"] = done ? 100 : *percent;
  if (done || seconds_left) status["estimatedRemainingSeconds"] = done ? 0 : static_cast<int>(*seconds_left);
  StatusJson metrics = StatusJson::array();
  const auto add = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) metrics.push_back({{"name", short_text(name)}, {"value", short_text(value)}});
  };
  if (progress != nullptr) {
    for (const auto& [name, value] : progress->metrics) add(name, value);
    if (progress->step) add("step", std::to_string(*progress->step));
    if (progress->steps) add("steps", std::to_string(*progress->steps));
  }
  add("dtrain_state", job.state);
  add("dtrain_reason", job.why);
  add("dtrain_restarts", std::to_string(job.restarts));
  add("dtrain_nodes", std::to_string(job.nodes));
  add("dtrain_world_size", std::to_string(job.world_size));
  status["metrics"] = std::move(metrics);
  status["lastUpdatedTime"] = wall_time;
  return StatusJson({{"trainerStatus", std::move(status)}}).dump(-1, ' ', false, StatusJson::error_handler_t::replace);
}

}  // namespace dtrain::launcher
