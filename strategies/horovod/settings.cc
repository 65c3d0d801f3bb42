// Reads the HOROVOD_* variables; see include/dtrain/horovod_settings.h.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "dtrain/horovod_settings.h"

namespace dtrain::hvd {
namespace {

constexpr double kMost = 1e12;        // bytes, tensors, milliseconds: far from what overflows
constexpr double kMostSeconds = 1e9;  // which are counted in nanoseconds

std::optional<double> read_number(const EnvLookup& lookup, const char* name, double least, bool whole,
                                  double most = kMost) {
  const std::optional<std::string> text = lookup(name);
  if (!text || text->empty()) return std::nullopt;
  double value = 0;
  const auto [end, status] = std::from_chars(text->data(), text->data() + text->size(), value);
  const bool number = status == std::errc() && end == text->data() + text->size();
  if (!number || !(value >= least && value <= most) || (whole && value != std::floor(value)))
    throw ConfigError(fmt::format("{}='{}' is not a {}number from {} on", name, *text, whole ? "whole " : "", least));
  return value;
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds{static_cast<std::int64_t>(seconds * 1000)};
}

}  // namespace

Settings parse_settings(const EnvLookup& lookup) {
  Settings settings;
  if (const auto bytes = read_number(lookup, "HOROVOD_FUSION_THRESHOLD", 0, true))
    settings.fusion_threshold = static_cast<std::int64_t>(*bytes);
  if (const auto time = read_number(lookup, "HOROVOD_CYCLE_TIME", 0, false))
    settings.cycle_time = std::chrono::microseconds{static_cast<std::int64_t>(*time * 1000)};
  if (const auto tensors = read_number(lookup, "HOROVOD_CACHE_CAPACITY", 0, true))
    settings.cache_capacity = static_cast<std::int64_t>(*tensors);
  settings.timeline = lookup("HOROVOD_TIMELINE").value_or("");
  if (const auto time = read_number(lookup, "HOROVOD_STALL_CHECK_TIME_SECONDS", 0, false, kMostSeconds))
    settings.stall_warning = milliseconds(*time);
  if (const auto time = read_number(lookup, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", 0, false, kMostSeconds))
    settings.stall_failure = milliseconds(*time);
  if (read_number(lookup, "HOROVOD_STALL_CHECK_DISABLE", 0, true).value_or(0) != 0)
    settings.stall_warning = settings.stall_failure = std::chrono::milliseconds{0};
  return settings;
}

}  // namespace dtrain::hvd
