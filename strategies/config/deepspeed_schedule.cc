// DeepSpeed's `scheduler`. See formats.h; learning_rate.cc computes the rates.
// Tested by test/unit/strategies/config/deepspeed_optimizer_test.cc.
#include <fmt/format.h>

#include <algorithm>

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

template <class Rate>
void read_warmup(JsonReader& params, Rate& rate) {
  rate.warmup =
      static_cast<double>(std::max<std::int64_t>(2, params.count("warmup_num_steps", 0, kManySteps).value_or(1000)));
  rate.is_log = params.one_of<bool>("warmup_type", {{"log", true}, {"linear", false}}).value_or(true);
}

WarmupRate read_warmup_rate(JsonReader& params, double top, std::optional<std::int64_t> total) {
  WarmupRate rate;
  read_warmup(params, rate);
  rate.low = params.number("warmup_min_lr", 0, kLargest).value_or(0);
  rate.high = params.number("warmup_max_lr", 0, kLargest).value_or(top);
  if (total) rate.steps = static_cast<double>(*total);
  return rate;
}

WarmupCosineRate read_cosine_rate(JsonReader& params, double base) {
  WarmupCosineRate rate{.base = base};
  rate.steps = static_cast<double>(total_steps(params));
  read_warmup(params, rate);
  rate.first = params.number("warmup_min_ratio", 0, kLargest).value_or(0);
  rate.last = params.number("cos_min_ratio", 0, kLargest).value_or(1e-4);
  return rate;
}

double needed(JsonReader& params, const char* key) {
  const auto found = params.number(key, 0, kLargest);
  if (!found) refuse(fmt::format("{} is not there; OneCycle needs it", params.path_of(key)));
  return *found;
}

OneCycleRate read_one_cycle_rate(JsonReader& params) {
  OneCycleRate rate;
  rate.low = needed(params, "cycle_min_lr");
  rate.high = needed(params, "cycle_max_lr");
  rate.decay = params.number("decay_lr_rate", 0, kLargest).value_or(0);
  const std::int64_t up = params.count("cycle_first_step_size", 1, kManySteps).value_or(2000);
  rate.up = static_cast<double>(up);
  rate.down = static_cast<double>(params.count("cycle_second_step_size", 1, kManySteps).value_or(up));
  rate.every = static_cast<double>(params.count("decay_step_size", 0, kManySteps).value_or(0));
  if (params.flag("cycle_momentum").value_or(true))
    refuse(fmt::format("{} is true, also if it is left out; dtrain changes the rate alone: set it to false",
                       params.path_of("cycle_momentum")));
  params.off({"cycle_first_stair_count", "cycle_second_stair_count"}, "dtrain's rate has no stairs; set it to 0");
  params.without_meaning({"cycle_min_mom", "cycle_max_mom", "decay_mom_rate"});  // of the momentum that is not changed
  return rate;
}

RangeTestRate read_range_test_rate(JsonReader& params) {
  RangeTestRate rate;
  rate.low = params.number("lr_range_test_min_lr", 0, kLargest).value_or(1e-3);
  rate.every = static_cast<double>(params.count("lr_range_test_step_size", 1, kManySteps).value_or(2000));
  rate.growth = params.number("lr_range_test_step_rate", 0, kLargest).value_or(1);
  rate.stairs = params.flag("lr_range_test_staircase").value_or(false);
  return rate;
}

enum class Scheduler { warmup, warmup_decay, warmup_cosine, one_cycle, range_test };

LearningRate read_rate(Scheduler scheduler, JsonReader& params, const std::optional<OptimizerOptions>& optimizer) {
  switch (scheduler) {
    case Scheduler::warmup:
      return {read_warmup_rate(params, rate_of(optimizer), std::nullopt)};
    case Scheduler::warmup_decay:
      return {read_warmup_rate(params, kDefaultRate, total_steps(params))};
    case Scheduler::warmup_cosine:
      if (!optimizer) refuse("scheduler.type is WarmupCosineLR, which scales optimizer.params.lr; give the optimizer");
      return {read_cosine_rate(params, rate_of(optimizer))};
    case Scheduler::one_cycle:
      return {read_one_cycle_rate(params)};
    case Scheduler::range_test:
      break;
  }
  return {read_range_test_rate(params)};
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
