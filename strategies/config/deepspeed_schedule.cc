// DeepSpeed's `scheduler`. Its classes count from -1: the first step has the rate that they begin with, and step k the
// rate after k calls of their step(), which is that of number k - 1. See formats.h.
// Tested by test/unit/strategies/config/deepspeed_optimizer_test.cc.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "strategies/config/formats.h"

namespace dtrain::config {
namespace {

constexpr double kLargest = 1e18;  // of a rate or a ratio: products of such numbers are numbers
constexpr std::int64_t kManySteps = std::int64_t{1} << 40;
constexpr double kDefaultRate = 1e-3;

double rate_of(const std::optional<OptimizerOptions>& optimizer) {
  return optimizer ? std::visit([](const auto& options) { return options.lr; }, *optimizer) : kDefaultRate;
}

std::int64_t total_steps(JsonReader& params) {
  if (const auto steps = params.count("total_num_steps", 1, kManySteps)) return *steps;
  refuse(fmt::format("{} is not there or is \"auto\"; give the number of steps", params.path_of("total_num_steps")));
}

// How far the warm-up is, from 0 to 1, in the scheduler's own count.
struct Warmup {
  double steps = 1000;
  bool is_log = true;

  double part(double at) const { return is_log ? std::log(at + 1) / std::log(steps) : at / steps; }
};

Warmup read_warmup(JsonReader& params) {
  Warmup warmup;
  warmup.steps =
      static_cast<double>(std::max<std::int64_t>(2, params.count("warmup_num_steps", 0, kManySteps).value_or(1000)));
  warmup.is_log = params.one_of<bool>("warmup_type", {{"log", true}, {"linear", false}}).value_or(true);
  return warmup;
}

// With the number of all steps, the rate falls in a line behind the warm-up.
LearningRate warmup_rate(JsonReader& params, double top, std::optional<std::int64_t> total) {
  const Warmup warmup = read_warmup(params);
  const double low = params.number("warmup_min_lr", 0, kLargest).value_or(0);
  const double high = params.number("warmup_max_lr", 0, kLargest).value_or(top);
  return [=](std::int64_t step) {
    const double at = static_cast<double>(step) - 1;
    if (at < 0) return low;
    if (at < warmup.steps) return low + (high - low) * warmup.part(at);
    if (!total) return high;
    const auto all = static_cast<double>(*total);
    return low + (high - low) * std::max(0.0, (all - at) / std::max(1.0, all - warmup.steps));
  };
}

LearningRate cosine_rate(JsonReader& params, double base) {
  const auto total = static_cast<double>(total_steps(params));
  const Warmup warmup = read_warmup(params);
  const double first = params.number("warmup_min_ratio", 0, kLargest).value_or(0);
  const double last = params.number("cos_min_ratio", 0, kLargest).value_or(1e-4);
  return [=](std::int64_t step) {
    const double at = static_cast<double>(step) - 1;
    if (at < 0) return 0.0;
    if (at < warmup.steps) return base * (first + (1 - first) * warmup.part(at));
    const double done = std::min(1.0, (at - warmup.steps + 1) / std::max(1.0, total - warmup.steps));
    return base * (last + (1 - last) * (1 + std::cos(std::numbers::pi * done)) / 2);
  };
}

double needed(JsonReader& params, const char* key) {
  const auto found = params.number(key, 0, kLargest);
  if (!found) refuse(fmt::format("{} is not there; OneCycle needs it", params.path_of(key)));
  return *found;
}

LearningRate one_cycle_rate(JsonReader& params) {
  const double low = needed(params, "cycle_min_lr"), high = needed(params, "cycle_max_lr");
  const double decay = params.number("decay_lr_rate", 0, kLargest).value_or(0);
  const auto up = static_cast<double>(params.count("cycle_first_step_size", 1, kManySteps).value_or(2000));
  const auto down = static_cast<double>(
      params.count("cycle_second_step_size", 1, kManySteps).value_or(static_cast<std::int64_t>(up)));
  const auto every = static_cast<double>(params.count("decay_step_size", 0, kManySteps).value_or(0));
  if (params.flag("cycle_momentum").value_or(true))
    refuse(fmt::format("{} is true, also if it is left out; dtrain changes the rate alone: set it to false",
                       params.path_of("cycle_momentum")));
  params.off({"cycle_first_stair_count", "cycle_second_stair_count"}, "dtrain's rate has no stairs; set it to 0");
  params.without_meaning({"cycle_min_mom", "cycle_max_mom", "decay_mom_rate"});  // of the momentum that is not changed
  return [=](std::int64_t step) {
    const auto at = static_cast<double>(step);
    if (at <= up) return low + (high - low) * at / up;
    if (at <= up + down) return low + (high - low) * (up + down - at) / down;
    return every == 0 || decay == 0 ? low : low / (1 + decay * (at - up - down) / every);
  };
}

LearningRate range_test_rate(JsonReader& params) {
  const double low = params.number("lr_range_test_min_lr", 0, kLargest).value_or(1e-3);
  const auto every = static_cast<double>(params.count("lr_range_test_step_size", 1, kManySteps).value_or(2000));
  const double growth = params.number("lr_range_test_step_rate", 0, kLargest).value_or(1);
  const bool stairs = params.flag("lr_range_test_staircase").value_or(false);
  return [=](std::int64_t step) {
    const double intervals = static_cast<double>(step) / every;
    return low * (1 + growth * (stairs ? std::floor(intervals) : intervals));
  };
}

enum class Scheduler { warmup, warmup_decay, warmup_cosine, one_cycle, range_test };

LearningRate read_rate(Scheduler scheduler, JsonReader& params, const std::optional<OptimizerOptions>& optimizer) {
  switch (scheduler) {
    case Scheduler::warmup:
      return warmup_rate(params, rate_of(optimizer), std::nullopt);
    case Scheduler::warmup_decay:
      return warmup_rate(params, kDefaultRate, total_steps(params));
    case Scheduler::warmup_cosine:
      if (!optimizer) refuse("scheduler.type is WarmupCosineLR, which scales optimizer.params.lr; give the optimizer");
      return cosine_rate(params, rate_of(optimizer));
    case Scheduler::one_cycle:
      return one_cycle_rate(params);
    case Scheduler::range_test:
      break;
  }
  return range_test_rate(params);
}

}  // namespace

LearningRate read_schedule(JsonReader& json, const std::optional<OptimizerOptions>& optimizer) {
  static const Json nothing = Json::object();
  const auto scheduler = json.one_of<Scheduler>("type", {{"WarmupLR", Scheduler::warmup},
                                                         {"WarmupDecayLR", Scheduler::warmup_decay},
                                                         {"WarmupCosineLR", Scheduler::warmup_cosine},
                                                         {"OneCycle", Scheduler::one_cycle},
                                                         {"LRRangeTest", Scheduler::range_test}});
  if (!scheduler) refuse(fmt::format("{} is not there; name the scheduler", json.path_of("type")));
  const Json* given = json.value("params");
  JsonReader params(given != nullptr ? *given : nothing, json.path_of("params"));
  params.only("last_batch_iteration", -1, "the program says which step it is at; remove the key");
  LearningRate rate = read_rate(*scheduler, params, optimizer);
  params.finish();
  json.finish();
  return rate;
}

}  // namespace dtrain::config
