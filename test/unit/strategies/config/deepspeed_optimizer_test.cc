// DeepSpeed's optimizers and schedules.
#include <cmath>

#include "dtrain/training_config.h"
#include "test/support/catch.h"

using namespace dtrain;
using Catch::Matchers::Contains;

namespace {

TrainingConfig training_with(const std::string& optimizer, const std::string& scheduler = "null") {
  return parse_config(R"({"train_batch_size": 8, "optimizer": )" + optimizer + R"(, "scheduler": )" + scheduler + "}",
                      {})
      .training;
}

template <class Options>
Options optimizer_of(const std::string& text) {
  const auto optimizer = training_with(text).optimizer;
  REQUIRE(optimizer);
  REQUIRE(std::holds_alternative<Options>(*optimizer));
  return std::get<Options>(*optimizer);
}

std::string refused(const std::string& optimizer, const std::string& scheduler = "null") {
  try {
    training_with(optimizer, scheduler);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

struct Rate {
  std::int64_t step;
  double wanted;
};

void check_rates(const std::string& scheduler, const std::vector<Rate>& rates,
                 const std::string& optimizer = R"({"type": "SGD", "params": {"lr": 0.5}})") {
  INFO(scheduler);
  const LearningRate rate = training_with(optimizer, scheduler).rate;
  REQUIRE(rate);
  for (const Rate& each : rates) {
    INFO("step " << each.step);
    CHECK(rate(each.step) == Approx(each.wanted).margin(1e-12));
  }
}

}  // namespace

TEST_CASE("config: DeepSpeed's optimizers are dtrain's") {
  const auto adamw = optimizer_of<AdamW>(
      R"({"type": "AdamW", "params": {"lr": 3e-4, "betas": [0.8, 0.95], "eps": 1e-6, "weight_decay": 0.1}})");
  CHECK(adamw.lr == 3e-4);
  CHECK(adamw.betas == std::pair(0.8, 0.95));
  CHECK(adamw.eps == 1e-6);
  CHECK(adamw.weight_decay == 0.1);
  // DeepSpeed's Adam decays as AdamW does, and its decay is 0 if nothing is said.
  CHECK(optimizer_of<AdamW>(R"({"type": "Adam", "params": {"lr": "auto"}})").weight_decay == 0);
  CHECK(optimizer_of<AdamW>(R"({"type": "Adam"})").lr == 1e-3);
  CHECK(optimizer_of<Adam>(R"({"type": "Adam", "params": {"adam_w_mode": false, "weight_decay": 0.2}})").weight_decay ==
        0.2);
  const auto sgd = optimizer_of<Sgd>(R"({"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9, "nesterov": true}})");
  CHECK((sgd.lr == 0.1 && sgd.momentum == 0.9 && sgd.nesterov));
  CHECK(optimizer_of<Adagrad>(R"({"type": "adagrad", "params": {"eps": 1e-9}})").eps == 1e-9);
  CHECK(optimizer_of<Lamb>(R"({"type": "Lamb", "params": {"lr": 2e-3}})").lr == 2e-3);
  CHECK(optimizer_of<Muon>(R"({"type": "Muon", "params": {"lr": 2e-3, "momentum": 0.9}})").momentum == 0.9);
}

TEST_CASE("config: an optimizer that cannot be is named") {
  CHECK_THAT(refused(R"({"type": "OneBitAdam"})"),
             Contains("optimizer.type 'OneBitAdam' is not known; one of Adam, AdamW, SGD, Adagrad, Lamb, Muon"));
  CHECK_THAT(refused(R"({"params": {"lr": 1}})"), Contains("optimizer.type '' is not known"));
  CHECK_THAT(refused(R"({"type": "Adam", "params": {"lr": -1}})"),
             Contains("optimizer.params.lr is -1, and must be a number that is 0 or more"));
  CHECK_THAT(refused(R"({"type": "Adam", "params": {"betas": [0.9]}})"), Contains("must be two numbers"));
  CHECK_THAT(refused(R"({"type": "Adam", "params": {"betas": [0.9, 1]}})"), Contains("from 0 to below 1"));
  CHECK_THAT(refused(R"({"type": "Adam", "params": {"amsgrad": true}})"), Contains("optimizer.params.amsgrad is true"));
  for (const char* type : {"Adam", "Lamb"})
    CHECK_THAT(refused(R"({"type": ")" + std::string(type) + R"(", "params": {"fp32_optimizer_states": false}})"),
               Contains("optimizer.params.fp32_optimizer_states is false; the config leaves the state in float32"));
  CHECK_THAT(refused(R"({"type": "Adam", "params": {"momentum": 0.9}})"),
             Contains("unknown key optimizer.params.momentum"));
  CHECK_THAT(refused(R"({"type": "SGD", "params": {"nesterov": true}})"), Contains("needs a momentum above 0"));
  CHECK_THAT(refused(R"({"type": "Lamb", "params": {"max_coeff": 10}})"), Contains("no limits of the ratio"));
  CHECK_THAT(refused(R"({"type": "Adam", "parms": {}})"), Contains("unknown key optimizer.parms"));
}

TEST_CASE("config: DeepSpeed's schedules give its rates") {
  // Step 0 comes before the scheduler's first count, so its count is one behind.
  check_rates(R"({"type": "WarmupLR", "params": {"warmup_min_lr": 0.1, "warmup_max_lr": 0.9, "warmup_num_steps": 4,
                  "warmup_type": "linear"}})",
              {{0, 0.1}, {1, 0.1}, {2, 0.3}, {3, 0.5}, {5, 0.9}, {100, 0.9}});
  check_rates(R"({"type": "WarmupLR", "params": {"warmup_num_steps": 8}})",
              {{0, 0}, {1, 0}, {2, 0.5 / 3}, {4, 1.0 / 3}, {8, 0.5}, {9, 0.5}});
  check_rates(
      R"({"type": "WarmupDecayLR", "params": {"warmup_max_lr": 1, "warmup_num_steps": 10, "total_num_steps": 110,
                  "warmup_type": "linear"}})",
      {{0, 0}, {6, 0.5}, {11, 1}, {61, 0.5}, {111, 0}, {1000, 0}});
  check_rates(R"({"type": "WarmupCosineLR", "params": {"warmup_num_steps": 10, "total_num_steps": 110,
                  "warmup_type": "linear", "warmup_min_ratio": 0.2, "cos_min_ratio": 0.1}})",
              {{0, 0}, {1, 0.1}, {6, 0.3}, {60, 0.275}, {110, 0.05}, {1000, 0.05}});
  check_rates(R"({"type": "OneCycle", "params": {"cycle_min_lr": 0.1, "cycle_max_lr": 1.1, "cycle_first_step_size": 10,
                  "cycle_second_step_size": 20, "decay_step_size": 5, "decay_lr_rate": 1, "cycle_momentum": false}})",
              {{0, 0.1}, {5, 0.6}, {10, 1.1}, {20, 0.6}, {30, 0.1}, {35, 0.05}});
  check_rates(R"({"type": "LRRangeTest", "params": {"lr_range_test_min_lr": 0.1, "lr_range_test_step_size": 10}})",
              {{0, 0.1}, {5, 0.15}, {10, 0.2}});
  check_rates(R"({"type": "LRRangeTest", "params": {"lr_range_test_min_lr": 0.1, "lr_range_test_step_size": 10,
                  "lr_range_test_staircase": true}})",
              {{9, 0.1}, {10, 0.2}, {19, 0.2}});
}

TEST_CASE("config: a schedule that cannot be is named") {
  const std::string sgd = R"({"type": "SGD"})";
  CHECK_THAT(refused(sgd, R"({"type": "Poly"})"), Contains("scheduler.type 'Poly' is not known; one of WarmupLR"));
  CHECK_THAT(refused(sgd, R"({"params": {}})"), Contains("scheduler.type is not there"));
  CHECK_THAT(refused(sgd, R"({"type": "WarmupDecayLR", "params": {"total_num_steps": "auto"}})"),
             Contains("scheduler.params.total_num_steps is not there or is \"auto\"; give the number of steps"));
  CHECK_THAT(refused("null", R"({"type": "WarmupCosineLR", "params": {"total_num_steps": 9}})"),
             Contains("give the optimizer"));
  CHECK_THAT(refused(sgd, R"({"type": "OneCycle", "params": {"cycle_min_lr": 0, "cycle_max_lr": 1}})"),
             Contains("cycle_momentum is true, also if it is left out"));
  CHECK_THAT(refused(sgd, R"({"type": "OneCycle", "params": {"cycle_min_lr": 0}})"),
             Contains("cycle_max_lr is not there"));
  CHECK_THAT(refused(sgd, R"({"type": "WarmupLR", "params": {"warmup_type": "square"}})"),
             Contains("one of log, linear"));
  CHECK_THAT(refused(sgd, R"({"type": "WarmupLR", "params": {"warmup_max_lr": [1]}})"), Contains("must be a number"));
}
