#include "launcher/progress/progress_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "rendezvous/base/printable.h"

namespace dtrain::launcher {
namespace {

using ProgressJson = nlohmann::ordered_json;

constexpr std::size_t kLongestMetric = 100, kLongestValue = 200;
constexpr std::int64_t kMostSteps = std::int64_t{1} << 53;
constexpr double kMostSeconds = 2147483647;

Error wrong(const std::string& what) { return {ErrorKind::usage, what}; }

Result<std::optional<std::int64_t>> count(const ProgressJson& root, const char* name) {
  const auto found = root.find(name);
  if (found == root.end()) return std::optional<std::int64_t>();
  const bool fits = found->is_number_integer() && *found >= 0 && *found <= kMostSteps;
  if (!fits) return wrong(fmt::format("\"{}\" is no number of steps", name));
  return std::optional(found->get<std::int64_t>());
}

Result<std::optional<double>> number(const ProgressJson& root, const char* name, double most) {
  const auto found = root.find(name);
  if (found == root.end()) return std::optional<double>();
  const bool fits = found->is_number() && found->get<double>() >= 0 && found->get<double>() <= most;
  if (!fits) return wrong(fmt::format("\"{}\" is no number from 0 to {:.0f}", name, most));
  return std::optional(found->get<double>());
}

// A program's NaN is the null of JSON.
std::optional<std::string> value_of(const ProgressJson& value) {
  if (value.is_number() || value.is_boolean()) return value.dump();
  if (value.is_null()) return "nan";
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) return std::nullopt;
  return printable(value.get<std::string>(), kLongestValue);
}

Result<void> take_metrics(const ProgressJson& root, Progress& progress) {
  const auto found = root.find("metrics");
  if (found == root.end()) return {};
  if (!found->is_object()) return wrong("\"metrics\" is no object");
  if (found->size() > kMostMetrics) return wrong(fmt::format("there are more than {} metrics", kMostMetrics));
  for (const auto& [name, value] : found->items()) {
    auto text = value_of(value);
    if (name.empty() || !text)
      return wrong(fmt::format("the metric '{}' is no number and no text", printable(name, kLongestMetric)));
    progress.metrics.emplace_back(printable(name, kLongestMetric), std::move(*text));
  }
  return {};
}

// Of members in members: more than these would cost the reader its stack.
bool is_flat(std::string_view text) {
  return std::count(text.begin(), text.end(), '{') + std::count(text.begin(), text.end(), '[') <= 64;
}

}  // namespace

std::string progress_path(const std::string& round_folder) {
  return round_folder.empty() ? "" : round_folder + "/progress.json";
}

Result<Progress> parse_progress(std::string_view text) {
  if (text.size() > kLongestProgressFile) return wrong(fmt::format("it has more than {} bytes", kLongestProgressFile));
  const ProgressJson root = is_flat(text) ? ProgressJson::parse(text, nullptr, false) : ProgressJson();
  if (!root.is_object()) return wrong("it is no object of JSON");
  Progress progress;
  const auto step = count(root, "step"), steps = count(root, "steps");
  const auto percent = number(root, "percent", 100), left = number(root, "seconds_left", kMostSeconds);
  for (const Error* error : {step ? nullptr : &step.error(), steps ? nullptr : &steps.error(),
                             percent ? nullptr : &percent.error(), left ? nullptr : &left.error()})
    if (error != nullptr) return *error;
  progress.step = *step;
  progress.steps = *steps;
  progress.percent = *percent;
  progress.seconds_left = *left;
  if (auto taken = take_metrics(root, progress); !taken) return taken.error();
  return progress;
}

}  // namespace dtrain::launcher
