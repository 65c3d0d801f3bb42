#include "launcher/progress/progress_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "rendezvous/base/printable.h"

namespace dtrain::launcher {
namespace {

using ProgressJson = nlohmann::ordered_json;

constexpr std::size_t kLongestMetric = 100;  // that is shown
constexpr std::int64_t kMostSteps = std::int64_t{1} << 53;

Error wrong(const std::string& what) { return {ErrorKind::usage, what}; }

Result<void> take_count(const ProgressJson& root, const char* name, std::optional<std::int64_t>& count) {
  const auto found = root.find(name);
  if (found == root.end()) return {};
  const bool fits = found->is_number_integer() && *found >= 0 && *found <= kMostSteps;
  if (!fits) return wrong(fmt::format("\"{}\" is no number of steps", name));
  count = found->get<std::int64_t>();
  return {};
}

Result<void> take_number(const ProgressJson& root, const char* name, double most, std::optional<double>& number) {
  const auto found = root.find(name);
  if (found == root.end()) return {};
  const bool fits = found->is_number() && found->get<double>() >= 0 && found->get<double>() <= most;
  if (!fits) return wrong(fmt::format("\"{}\" is no number from 0 to {:.0f}", name, most));
  number = found->get<double>();
  return {};
}

// A program's NaN is the null of JSON.
std::optional<std::string> value_of(const ProgressJson& value) {
  if (value.is_number() || value.is_boolean()) return value.dump();
  if (value.is_null()) return "nan";
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) return std::nullopt;
  return value.get<std::string>();
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
    progress.metrics.emplace_back(name, std::move(*text));
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
  for (const auto& taken :
       {take_count(root, "step", progress.step), take_count(root, "steps", progress.steps),
        take_number(root, "percent", 100, progress.percent),
        take_number(root, "seconds_left", kMostSecondsLeft, progress.seconds_left), take_metrics(root, progress)})
    if (!taken) return taken.error();
  return progress;
}

}  // namespace dtrain::launcher
