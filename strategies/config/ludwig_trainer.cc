// Ludwig's `trainer` section: what the program carries out. See formats.h.
// Tested by test/unit/strategies/config/ludwig_trainer_test.cc.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "strategies/config/formats.h"

namespace dtrain::config {
namespace {

constexpr double kNoBound = std::numeric_limits<double>::infinity();
constexpr std::int64_t kManyBatches = std::int64_t{1} << 40;
constexpr BatchKeys kLudwigBatch{"effective_batch_size", "batch_size", "gradient_accumulation_steps"};

constexpr const char* kProgramEvaluates = "evaluation and checkpoints are the program's; remove the key";
constexpr const char* kProgramHasModel = "the model and its loss are the program's; remove the key";

bool says_any(JsonReader& trainer, std::initializer_list<std::string_view> keys) {
  return std::any_of(keys.begin(), keys.end(), [&](std::string_view key) { return trainer.value(key) != nullptr; });
}

// The strategy may be a config of its own, which says such things too.
void require_alone(const JsonReader& trainer, std::string_view key, bool said) {
  if (!said) return;
  refuse(fmt::format("{} is there, and the config of the strategy has a key for the same; remove one of them",
                     trainer.path_of(key)));
}

// By Newton. libm would make each start of the command line slower.
double square_root(double of) {
  double root = of;
  for (double next = (root + 1) / 2; next < root; next = (root + of / root) / 2) root = next;
  return root;
}

[[noreturn]] void refuse_without_rate(const JsonReader& trainer, std::string_view key) {
  refuse(fmt::format("{} is there, and {} is not, or is \"auto\"; give the rate", trainer.path_of(key),
                     trainer.path_of("learning_rate")));
}

enum class Scaling { constant, sqrt, linear };

// The rate of all ranks together. Nothing, if the config has none.
std::optional<double> read_learning_rate(JsonReader& trainer, const JobSize& job) {
  const auto rate = trainer.number("learning_rate", 0, 1);
  const auto scaling = trainer.one_of<Scaling>(
      "learning_rate_scaling", {{"constant", Scaling::constant}, {"sqrt", Scaling::sqrt}, {"linear", Scaling::linear}});
  trainer.off("base_learning_rate", "give learning_rate in its place");
  if (!rate && scaling) refuse_without_rate(trainer, "learning_rate_scaling");
  if (!rate) return std::nullopt;
  const double ranks = std::max(1, job.ranks);
  switch (scaling.value_or(Scaling::linear)) {
    case Scaling::linear:
      return *rate * ranks;
    case Scaling::sqrt:
      return *rate * square_root(ranks);
    case Scaling::constant:
      break;
  }
  return rate;
}

OptimizerOptions read_ludwig_optimizer(JsonReader& optimizer) {
  const auto which = optimizer.one_of<TorchOptimizer>("type", {{"adam", TorchOptimizer::adam},
                                                               {"adamw", TorchOptimizer::adamw},
                                                               {"sgd", TorchOptimizer::sgd},
                                                               {"adagrad", TorchOptimizer::adagrad}});
  optimizer.forbid({"lr"}, "trainer.learning_rate says it; remove the key");
  OptimizerOptions options = read_torch_optimizer(which.value_or(TorchOptimizer::adam), optimizer);
  optimizer.finish();
  return options;
}

void take_optimizer(JsonReader& trainer, const std::optional<double>& rate, TrainingConfig& training) {
  auto section = trainer.section("optimizer");
  if (!rate && !section) return;
  require_alone(trainer, section ? "optimizer" : "learning_rate", training.optimizer.has_value());
  if (!rate) refuse_without_rate(trainer, "optimizer");
  training.optimizer = section ? read_ludwig_optimizer(*section) : Adam{};
  std::visit([&](auto& options) { options.lr = *rate; }, *training.optimizer);
  training.keys.push_back(trainer.path_of("learning_rate"));
  if (section) training.keys.push_back(trainer.path_of("optimizer"));
}

// Ludwig clips to both norms, one after the other: the smaller one counts.
void take_clipping(JsonReader& trainer, TrainingConfig& training) {
  auto section = trainer.section("gradient_clipping");
  if (!section) return;
  require_alone(trainer, "gradient_clipping", training.max_norm.has_value());
  const bool none = section->has("clipglobalnorm") && section->is_empty("clipglobalnorm");  // null
  const double together = section->number("clipglobalnorm", 0, kNoBound).value_or(none ? 0 : 0.5);
  const double again = section->number("clipnorm", 0, kNoBound).value_or(0);
  section->off("clipvalue", "dtrain clips the norm of all gradients; give clipglobalnorm in its place");
  section->finish();
  if (together == 0 && again == 0) return;
  training.max_norm = together > 0 && again > 0 ? std::min(together, again) : std::max(together, again);
  training.keys.push_back(trainer.path_of("gradient_clipping"));
}

void take_batch(JsonReader& trainer, const JobSize& job, TrainingConfig& training) {
  const bool asked = says_any(trainer, {kLudwigBatch.all, kLudwigBatch.micro, kLudwigBatch.steps});
  trainer.without_meaning({"max_batch_size"});
  if (!asked) return;
  require_alone(trainer, "batch_size", training.global_batch + training.micro_batch + training.accumulation > 0);
  read_batch(trainer, job, training, kLudwigBatch);
}

// Batches of a rank in the whole training, as Ludwig counts them.
std::optional<std::int64_t> take_steps(JsonReader& trainer, TrainingConfig& training) {
  const auto batches = trainer.count("train_steps", 1, kManyBatches);
  if (!batches) {
    trainer.only("epochs", Json(), "dtrain counts no epochs; give train_steps in its place, or remove the key");
    return std::nullopt;
  }
  trainer.without_meaning({"epochs"});
  const std::int64_t in_a_step = std::max<std::int64_t>(1, training.accumulation);
  if (*batches % in_a_step != 0) {
    refuse(fmt::format("{} is {}, in batches, which the {} batches of a step ({}) do not divide; correct one of them",
                       trainer.path_of("train_steps"), *batches, in_a_step, trainer.path_of(kLudwigBatch.steps)));
  }
  training.steps = *batches / in_a_step;
  training.keys.push_back(trainer.path_of("train_steps"));
  return batches;
}

DecayRate::Decay read_decay(JsonReader& schedule) {
  using Decay = DecayRate::Decay;
  const Json* word = schedule.value("decay");
  const auto others = {"one_cycle", "inverse_sqrt", "polynomial", "wsd"};
  if (word != nullptr && std::any_of(others.begin(), others.end(), [&](const char* other) { return *word == other; })) {
    refuse(
        fmt::format("{} is {}; choose linear, exponential or cosine, or set the rate in the program "
                    "(dtrain/schedule.h) and remove the section",
                    schedule.path_of("decay"), word->get<std::string>()));
  }
  return schedule
      .one_of<Decay>("decay",
                     {{"linear", Decay::linear}, {"exponential", Decay::exponential}, {"cosine", Decay::cosine}})
      .value_or(Decay::none);
}

// Without its base, its warm-up and the batches of a step.
DecayRate read_decay_rate(JsonReader& schedule) {
  DecayRate rate{.decay = read_decay(schedule)};
  const double factor = schedule.number("decay_rate", 0, 1).value_or(0.96);
  const auto steps = schedule.count("decay_steps", 1, kManyBatches).value_or(10'000);
  const bool stairs = schedule.flag("staircase").value_or(false);
  const auto period = schedule.count("t_0", 1, kManyBatches);
  const auto growth = schedule.count("t_mult", 1, 1 << 20).value_or(1);
  const double low = schedule.number("eta_min", 0, 1).value_or(0);
  if (rate.decay == DecayRate::Decay::exponential) {
    rate.factor = factor;
    rate.every = static_cast<double>(steps);
    rate.stairs = stairs;
  }
  if (rate.decay == DecayRate::Decay::cosine) {
    if (!period)
      refuse(fmt::format("{} is not there; give the batches up to the first restart", schedule.path_of("t_0")));
    rate.every = static_cast<double>(*period);
    rate.growth = static_cast<double>(growth);
    rate.low = low;
  }
  return rate;
}

void take_schedule(JsonReader& trainer, const std::optional<double>& base, const std::optional<std::int64_t>& batches,
                   TrainingConfig& training) {
  auto schedule = trainer.section("learning_rate_scheduler");
  if (!schedule) return;
  DecayRate rate = read_decay_rate(*schedule);
  const double warmup = schedule->number("warmup_fraction", 0, 1).value_or(0);
  schedule->off("warmup_evaluations", "how often is evaluated is the program's; give warmup_fraction in its place");
  schedule->off("reduce_on_plateau", "use dtrain::Plateau in the program (dtrain/schedule.h), and remove the key");
  schedule->without_meaning({"reduce_on_plateau_patience", "reduce_on_plateau_rate", "reduce_eval_metric",
                             "reduce_eval_split", "max_lr", "pct_start", "div_factor", "final_div_factor",
                             "inverse_sqrt_warmup_steps", "polynomial_power", "polynomial_end_lr",
                             "wsd_warmup_fraction", "wsd_stable_fraction", "wsd_decay_fraction"});
  schedule->finish();
  if (rate.decay == DecayRate::Decay::none && warmup == 0) return;
  require_alone(trainer, "learning_rate_scheduler", static_cast<bool>(training.rate));
  if (!base) refuse_without_rate(trainer, "learning_rate_scheduler");
  if (!batches && (warmup > 0 || rate.decay == DecayRate::Decay::linear)) {
    refuse(fmt::format("{} needs {}; give the batches of the whole training",
                       schedule->path_of(warmup > 0 ? "warmup_fraction" : "decay"), trainer.path_of("train_steps")));
  }
  rate.base = *base;
  rate.batches = static_cast<double>(std::max<std::int64_t>(1, training.accumulation));
  rate.end = static_cast<double>(batches.value_or(0));
  rate.warmup = warmup * rate.end;
  training.rate = {rate};
  training.keys.push_back(trainer.path_of("learning_rate_scheduler"));
}

// What a strategy says of precision stands.
void take_precision(JsonReader& trainer, Config& config) {
  if (!trainer.flag("use_mixed_precision").value_or(false) || config.strategy.param != Precision::same) return;
  const std::string key = trainer.path_of("use_mixed_precision");
  require_sharded(key, config.strategy);
  config.strategy.param = Precision::float16;
  scale_loss(key, {}, config);
}

// What belongs to the program, or is not there.
void refuse_rest(JsonReader& trainer) {
  trainer.only("type", "finetune", kProgramHasModel);
  trainer.only("early_stop", -1, kProgramEvaluates);
  trainer.off({"eval_batch_size", "eval_steps", "evaluate_training_set", "skip_all_evaluation", "validation_field",
               "validation_metric", "steps_per_checkpoint", "checkpoints_per_epoch"},
              kProgramEvaluates);
  trainer.only("should_shuffle", Json(), "the order of the data is the program's (BatchSampler); remove the key");
  trainer.off({"bucketing_field", "packing"}, "data are the program's; remove the key");
  trainer.off("increase_batch_size_on_plateau", "the size of a batch does not change here; set it to 0");
  trainer.off({"regularization_lambda", "layers_to_freeze_regex", "loss_balancing", "contrastive_pretrain_epochs",
               "modality_dropout", "model_soup"},
              kProgramHasModel);
  trainer.off("enable_gradient_checkpointing",
              "it is the program that checkpoints activations (dtrain/recompute.h); set it to false");
  trainer.off({"compile", "enable_profiling"}, "dtrain does not have it; set it to false");
  // Of what is off.
  trainer.without_meaning({"increase_batch_size_on_plateau_patience", "increase_batch_size_on_plateau_rate",
                           "increase_batch_size_eval_metric", "increase_batch_size_eval_split", "regularization_type",
                           "profiler", "loss_balancing_alpha", "loss_balancing_lr", "loss_balancing_preference_vector",
                           "loss_balancing_tchebycheff_weight", "contrastive_pretrain_temperature",
                           "contrastive_pretrain_projection_dim", "contrastive_pretrain_learnable_temperature",
                           "model_soup_top_k", "packing_max_sequences_per_pack"});
}

}  // namespace

void read_ludwig_trainer(JsonReader& trainer, const JobSize& job, Config& config) {
  TrainingConfig& training = config.training;
  take_batch(trainer, job, training);
  const auto batches = take_steps(trainer, training);
  const auto rate = read_learning_rate(trainer, job);
  take_optimizer(trainer, rate, training);
  take_schedule(trainer, rate, batches, training);
  take_clipping(trainer, training);
  take_precision(trainer, config);
  refuse_rest(trainer);
}

}  // namespace dtrain::config
