// Ludwig's `trainer` section: what the program carries out of it, and what it says of the rest.
#include "dtrain/training_config.h"
#include "test/support/catch.h"

using namespace dtrain;
using Catch::Matchers::Contains;
using Keys = std::vector<std::string>;

namespace {

constexpr JobSize kFourRanks{.ranks = 4, .ranks_of_host = 4};

Config config_of(const std::string& trainer, const std::string& backend = R"({"type": "ray"})",
                 const JobSize& job = kFourRanks) {
  return parse_config(R"({"backend": )" + backend + R"(, "trainer": )" + trainer + "}", job);
}

TrainingConfig training_of(const std::string& trainer, const JobSize& job = kFourRanks) {
  return config_of(trainer, R"({"type": "ray"})", job).training;
}

std::string refusal_of(const std::string& trainer, const std::string& backend = R"({"type": "ray"})") {
  try {
    config_of(trainer, backend);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

template <class Options>
Options options_of(const std::string& trainer) {
  const auto optimizer = training_of(trainer).optimizer;
  REQUIRE(optimizer);
  REQUIRE(std::holds_alternative<Options>(*optimizer));
  return std::get<Options>(*optimizer);
}

// With a rate of 1 on one rank.
void check_schedule(const std::string& schedule, const std::string& more, const std::vector<double>& wanted) {
  INFO(schedule << more);
  const LearningRate rate =
      training_of(R"({"learning_rate": 1, "learning_rate_scheduler": )" + schedule + more + "}", {.ranks = 1}).rate;
  REQUIRE(rate);
  for (std::size_t step = 0; step < wanted.size(); ++step) {
    INFO("step " << step);
    CHECK(rate(static_cast<std::int64_t>(step)) == Approx(wanted[step]).margin(1e-9));
  }
}

}  // namespace

TEST_CASE("ludwig: all of a trainer section is carried out") {
  const TrainingConfig training = training_of(R"({
      "type": "finetune", "learning_rate": 0.0001, "learning_rate_scaling": "constant", "batch_size": 2,
      "effective_batch_size": 64, "gradient_accumulation_steps": "auto", "max_batch_size": 1024, "train_steps": 80,
      "epochs": 3, "optimizer": {"type": "adamw", "betas": [0.9, 0.95], "eps": 1e-6, "weight_decay": 0.1},
      "learning_rate_scheduler": {"decay": "linear", "warmup_fraction": 0.1, "reduce_on_plateau": 0},
      "gradient_clipping": {"clipglobalnorm": 1.0}, "use_mixed_precision": false, "regularization_lambda": 0,
      "regularization_type": "l2", "early_stop": -1, "eval_batch_size": "auto", "validation_metric": null})");
  REQUIRE(training.optimizer);
  const auto adamw = std::get<AdamW>(*training.optimizer);
  CHECK(adamw.lr == 1e-4);
  CHECK(adamw.betas == std::pair(0.9, 0.95));
  CHECK(adamw.eps == 1e-6);
  CHECK(adamw.weight_decay == 0.1);
  CHECK(training.micro_batch == 2);
  CHECK(training.accumulation == 8);
  CHECK(training.global_batch == 64);
  CHECK(training.steps == 10);
  CHECK(training.max_norm == 1);
  CHECK(training.rate);
  CHECK(training.keys == Keys{"trainer.effective_batch_size", "trainer.batch_size", "trainer.train_steps",
                              "trainer.learning_rate", "trainer.optimizer", "trainer.learning_rate_scheduler",
                              "trainer.gradient_clipping"});
  CHECK(training_of("{}").keys.empty());
}

TEST_CASE("ludwig: the section stands beside the backend, or alone with its keys") {
  const Config alone = parse_config(
      R"({"trainer": {"strategy": "fsdp", "num_workers": 4, "learning_rate": 0.5, "train_steps": 3}})", kFourRanks);
  CHECK(alone.strategy.kind == StrategyKind::fsdp);
  CHECK(alone.training.optimizer);
  CHECK(alone.training.steps == 3);
  CHECK_THAT(refusal_of(R"({"strategy": "fsdp"})"), Contains("unknown key trainer.strategy"));
  CHECK_THAT(refusal_of("{}", R"({"trainer": {"learning_rate": 0.5}})"),
             Contains("unknown key backend.trainer.learning_rate"));
}

TEST_CASE("ludwig: the rate is that of all ranks together") {
  CHECK(options_of<Adam>(R"({"learning_rate": 0.01})").lr == 0.04);
  CHECK(options_of<Adam>(R"({"learning_rate": 0.01, "learning_rate_scaling": "linear"})").lr == 0.04);
  CHECK(options_of<Adam>(R"({"learning_rate": 0.01, "learning_rate_scaling": "sqrt"})").lr == 0.02);
  CHECK(options_of<Adam>(R"({"learning_rate": 0.01, "learning_rate_scaling": "constant"})").lr == 0.01);
  const auto eight = training_of(R"({"learning_rate": 1, "learning_rate_scaling": "sqrt"})", {.ranks = 8}).optimizer;
  CHECK(std::get<Adam>(*eight).lr == Approx(2.8284271247461903).epsilon(1e-15));
  // While the number of ranks is not known, nothing is scaled.
  CHECK(std::get<Adam>(*training_of(R"({"learning_rate": 0.01})", {}).optimizer).lr == 0.01);
}

TEST_CASE("ludwig: its optimizers are torch's, without weight decay if nothing is said") {
  const auto with = [](const std::string& optimizer) {
    return R"({"learning_rate": 0.1, "optimizer": )" + optimizer + "}";
  };
  CHECK(options_of<Adam>(with(R"({"weight_decay": 0.2})")).weight_decay == 0.2);
  CHECK(options_of<Adam>(with(R"({"type": "adam", "amsgrad": false})")).weight_decay == 0);
  CHECK(options_of<AdamW>(with(R"({"type": "adamw"})")).weight_decay == 0);
  CHECK(options_of<Sgd>(with(R"({"type": "sgd", "momentum": 0.9, "nesterov": true})")).momentum == 0.9);
  CHECK(options_of<Adagrad>(with(R"({"type": "adagrad", "lr_decay": 0.5})")).lr_decay == 0.5);
}

TEST_CASE("ludwig: clipping is to the smaller norm") {
  const auto norm = [](const std::string& clipping) {
    return training_of(R"({"gradient_clipping": )" + clipping + "}").max_norm;
  };
  CHECK(norm("{}") == 0.5);
  CHECK(norm(R"({"clipglobalnorm": 2})") == 2);
  CHECK(norm(R"({"clipglobalnorm": "auto"})") == 0.5);
  CHECK(norm(R"({"clipnorm": 1})") == 0.5);
  CHECK(norm(R"({"clipglobalnorm": null, "clipnorm": 1})") == 1);
  CHECK(norm(R"({"clipglobalnorm": 3, "clipnorm": 2, "clipvalue": null})") == 2);
  CHECK_FALSE(norm(R"({"clipglobalnorm": null})"));
  CHECK_FALSE(norm("null"));
}

TEST_CASE("ludwig: mixed precision is float16 and a scale of the loss, unless the strategy says another") {
  const std::string on = R"({"use_mixed_precision": true})";
  const Config config = config_of(on, R"({"trainer": {"strategy": "fsdp"}})");
  CHECK(config.strategy.param == Precision::float16);
  CHECK(config.training.loss_scale);
  CHECK(config.training.keys == Keys{"trainer.use_mixed_precision"});
  const Config wide = config_of(on,
                                R"({"trainer": {"strategy": {"type": "deepspeed", "zero_optimization": {"stage": 2},
          "bf16": {"enabled": true}}}})");
  CHECK(wide.strategy.param == Precision::bfloat16);
  CHECK_FALSE(wide.training.loss_scale);
}

// The numbers are those that Ludwig 0.17.8 gives, of the last batch of each step.
TEST_CASE("ludwig: schedules give its rates") {
  check_schedule(R"({"decay": "linear", "warmup_fraction": 0.25})", R"(, "train_steps": 8)",
                 {0, 0.5, 1, 5.0 / 6, 4.0 / 6, 0.5, 2.0 / 6, 1.0 / 6, 0, 0});
  check_schedule(R"({"decay": "linear"})", R"(, "train_steps": 8, "batch_size": 1, "gradient_accumulation_steps": 2)",
                 {7.0 / 8, 5.0 / 8, 3.0 / 8, 1.0 / 8});
  check_schedule(R"({"warmup_fraction": 0.3})", R"(, "train_steps": 8)", {0, 1 / 2.4, 2 / 2.4, 1, 1, 1});
  check_schedule(R"({"decay": "exponential", "decay_rate": 0.25, "decay_steps": 2})", "", {0.25, 0.125, 0.0625});
  check_schedule(R"({"decay": "exponential", "decay_rate": 0.25, "decay_steps": 2, "staircase": true})", "",
                 {0.25, 0.0625, 0.0625, 0.015625});
  check_schedule(R"({"decay": "cosine", "t_0": 2, "t_mult": 2, "eta_min": 0.5})", "", {1, 0.75, 1, 0.9267766953, 0.75});
  check_schedule(R"({"decay": "cosine", "t_0": 2})", "", {1, 0.5, 1, 0.5, 1});
  const std::string still = R"({"learning_rate": 1, "learning_rate_scheduler": )";
  for (const char* none : {"{}", "null", R"({"decay": null, "decay_rate": 0.9})"}) {
    CHECK_FALSE(training_of(still + none + "}").rate);
  }
}

TEST_CASE("ludwig: what cannot be carried out is named, with what to do") {
  struct Wrong {
    const char* trainer;
    const char* why;
  };
  const Wrong wrong[] = {
      {R"({"learning_rate": 2})", "trainer.learning_rate is 2, and must be a number from 0 to 1"},
      {R"({"learning_rate": "fast"})", "trainer.learning_rate is \"fast\", and must be a number"},
      {R"({"optimizer": {"type": "adam"}})", "trainer.optimizer is there, and trainer.learning_rate is not"},
      {R"({"learning_rate": "auto", "learning_rate_scaling": "sqrt"})", "trainer.learning_rate_scaling is there, and"},
      {R"({"learning_rate": 0.1, "optimizer": {"type": "lion"}})",
       "trainer.optimizer.type 'lion' is not known; one of adam, adamw, sgd, adagrad"},
      {R"({"learning_rate": 0.1, "optimizer": {"type": "adam", "fused": true}})",
       "unknown key trainer.optimizer.fused"},
      {R"({"learning_rate": 0.1, "optimizer": {"type": "adam", "amsgrad": true}})",
       "trainer.optimizer.amsgrad is true"},
      {R"({"learning_rate": 0.1, "optimizer": {"lr": 0.1}})", "trainer.learning_rate says it"},
      {R"({"gradient_clipping": {"clipvalue": 5}})", "trainer.gradient_clipping.clipvalue is 5; dtrain clips the norm"},
      {R"({"gradient_clipping": {"norm": 5}})", "unknown key trainer.gradient_clipping.norm"},
      {R"({"batch_size": 3, "effective_batch_size": 64})",
       "trainer.effective_batch_size is 64, which trainer.batch_size 3 x 4 ranks = 12 does not divide"},
      {R"({"batch_size": 4, "gradient_accumulation_steps": 3, "train_steps": 100})",
       "trainer.train_steps is 100, in batches, which the 3 batches of a step (trainer.gradient_accumulation_steps) "
       "do"},
      {R"({"epochs": 3})", "trainer.epochs is 3; dtrain counts no epochs; give train_steps in its place"},
      {R"({"learning_rate": 0.1, "learning_rate_scheduler": {"decay": "linear"}})",
       "trainer.learning_rate_scheduler.decay needs trainer.train_steps"},
      {R"({"learning_rate": 0.1, "learning_rate_scheduler": {"warmup_fraction": 0.1}})",
       "trainer.learning_rate_scheduler.warmup_fraction needs trainer.train_steps"},
      {R"({"learning_rate": 0.1, "learning_rate_scheduler": {"decay": "cosine"}})",
       "trainer.learning_rate_scheduler.t_0 is not there"},
      {R"({"learning_rate": 0.1, "learning_rate_scheduler": {"decay": "wsd"}})",
       "decay is wsd; choose linear, exponential or cosine, or set the rate in the program (dtrain/schedule.h)"},
      {R"({"learning_rate": 0.1, "learning_rate_scheduler": {"decay": "square"}})",
       "'square' is not known; one of linear"},
      {R"({"learning_rate_scheduler": {"decay": "exponential"}})",
       "trainer.learning_rate_scheduler is there, and trainer.learning_rate is not"},
      {R"({"learning_rate_scheduler": {"reduce_on_plateau": 2}})", "use dtrain::Plateau in the program"},
      {R"({"learning_rate_scheduler": {"warmup_evaluations": 2}})", "give warmup_fraction in its place"},
      {R"({"learning_rate_scheduler": {"warmup": 2}})", "unknown key trainer.learning_rate_scheduler.warmup"},
      {R"({"use_mixed_precision": true})", "trainer.use_mixed_precision asks for mixed precision, which ddp"},
      {R"({"type": "dpo"})", "trainer.type is \"dpo\"; the model and its loss are the program's"},
      {R"({"early_stop": 5})", "trainer.early_stop is 5; evaluation and checkpoints are the program's"},
      {R"({"eval_batch_size": 5})", "trainer.eval_batch_size is 5; evaluation and checkpoints are the program's"},
      {R"({"should_shuffle": true})", "trainer.should_shuffle is true; the order of the data is the program's"},
      {R"({"bucketing_field": "x"})", "trainer.bucketing_field is \"x\"; data are the program's"},
      {R"({"regularization_lambda": 0.1})", "trainer.regularization_lambda is 0.1; the model and its loss are"},
      {R"({"increase_batch_size_on_plateau": 1})", "the size of a batch does not change here"},
      {R"({"enable_gradient_checkpointing": true})", "it is the program that checkpoints activations"},
      {R"({"compile": true})", "trainer.compile is true; dtrain does not have it"},
      {R"({"learning_rates": 1})", "unknown key trainer.learning_rates"},
  };
  for (const Wrong& each : wrong) {
    INFO(each.trainer);
    CHECK_THAT(refusal_of(each.trainer), Contains(each.why));
  }
}

TEST_CASE("ludwig: the section and the strategy's own config do not say the same twice") {
  const std::string backend = R"({"trainer": {"strategy": {"type": "deepspeed", "zero_optimization": {"stage": 1},
      "train_batch_size": 8, "gradient_clipping": 1, "optimizer": {"type": "SGD"},
      "scheduler": {"type": "WarmupLR"}}}})";
  for (const char* trainer : {R"({"batch_size": 2})", R"({"gradient_clipping": {}})", R"({"learning_rate": 0.1})"}) {
    INFO(trainer);
    CHECK_THAT(refusal_of(trainer, backend), Contains("the config of the strategy has a key for the same"));
  }
  CHECK_THAT(refusal_of(R"({"learning_rate": 0.1, "learning_rate_scheduler": {"decay": "exponential"}})",
                        R"({"trainer": {"strategy": {"type": "deepspeed", "scheduler": {"type": "WarmupLR"}}}})"),
             Contains("trainer.learning_rate_scheduler is there, and the config of the strategy"));
  const TrainingConfig both = config_of(R"({"train_steps": 6})", backend).training;
  CHECK(both.steps == 6);
  CHECK(both.max_norm == 1);
  CHECK(both.global_batch == 8);
}
