// Reads the HOROVOD_* variables; see include/dtrain/horovod_settings.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include "dtrain/horovod_settings.h"

namespace dtrain::hvd {
namespace {

constexpr double kMostOfSetting = 1e12;  // bytes, tensors, milliseconds: far from what overflows
constexpr double kMostSeconds = 1e9;     // which are counted in nanoseconds

// What Horovod reads beside them while it runs, but for what its launcher sets.
constexpr std::array kOthers{
    "HOROVOD_MPI_THREADS_DISABLE",
    "HOROVOD_TIMELINE_MARK_CYCLES",
    "HOROVOD_AUTOTUNE",
    "HOROVOD_AUTOTUNE_LOG",
    "HOROVOD_AUTOTUNE_WARMUP_SAMPLES",
    "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE",
    "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES",
    "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE",
    "HOROVOD_HIERARCHICAL_ALLREDUCE",
    "HOROVOD_HIERARCHICAL_ALLGATHER",
    "HOROVOD_BATCH_D2D_MEMCOPIES",
    "HOROVOD_NUM_NCCL_STREAMS",
    "HOROVOD_CPU_OPERATIONS",
    "HOROVOD_CONTROLLER",
    "HOROVOD_CCL_CACHE",
    "HOROVOD_CCL_BGT_AFFINITY",
    "HOROVOD_GLOO_IFACE",
    "HOROVOD_GLOO_TIMEOUT_SECONDS",
    "HOROVOD_ADASUM_MPI_CHUNK_SIZE",
    "HOROVOD_THREAD_AFFINITY",
    "HOROVOD_DISABLE_GROUP_FUSION",
    "HOROVOD_DISABLE_NVTX_RANGES",
    "HOROVOD_ENABLE_ASYNC_COMPLETION",
    "HOROVOD_DYNAMIC_PROCESS_SETS",
    "HOROVOD_ENABLE_XLA_OPS",
    "HOROVOD_LOG_LEVEL",
    "HOROVOD_LOG_HIDE_TIME",
};

std::optional<double> read_number(const EnvLookup& lookup, const char* name, double least, bool whole,
                                  double most = kMostOfSetting) {
  const std::optional<std::string> text = lookup(name);
  if (!text || text->empty()) return std::nullopt;
  double value = 0;
  const auto [end, status] = std::from_chars(text->data(), text->data() + text->size(), value);
  const bool number = status == std::errc() && end == text->data() + text->size();
  if (!number || !(value >= least && value <= most) || (whole && value != std::floor(value)))
    throw ConfigError(
        fmt::format("dtrain: {}='{}' is not a {}number of at least {}", name, *text, whole ? "whole " : "", least));
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

std::optional<std::string> without_effect(const EnvLookup& lookup) {
  std::vector<std::string> set;
  for (const char* name : kOthers) {
    if (!lookup(name).value_or("").empty()) set.emplace_back(name);
  }
  if (set.empty()) return std::nullopt;
  return fmt::format("{} {} no effect here", fmt::join(set, ", "), set.size() == 1 ? "has" : "have");
}

}  // namespace dtrain::hvd
