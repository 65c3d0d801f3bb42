#pragma once
// TrainingConfig: what a config says of training beside the strategy. DTRAIN_STRATEGY (`dtrain run --strategy FILE`)
// may hold the JSON of DeepSpeed, of Accelerate or of Ludwig. Its part about sharding becomes the Strategy; the rest is
// here, and the program carries it out:
//
//   const dtrain::TrainingConfig& config = session.training_config();   // before Parallel or Ddp is made
//   auto optimizer = model.optimizer(config.optimizer.value_or(dtrain::AdamW{.lr = 3e-4}));
//   ...
//   if (config.max_norm) model.clip_grad_norm(*config.max_norm);
//   if (config.rate) optimizer.set_lr(config.rate(step));
//   model.step(optimizer);
//
// Parallel and Ddp throw ConfigError if the config has something for the program, and the program has not called
// Session::training_config(): so no key is left out in silence. docs/training/config.md has all keys. Pure: no I/O, no
// torch.
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "dtrain/errors.h"
#include "dtrain/loss_scale.h"
#include "dtrain/optimizer_options.h"
#include "dtrain/strategy.h"

namespace dtrain {

// Schedules of a config, with the rates of DeepSpeed's classes and of Ludwig's. Rates that rise over `warmup` steps,
// along a logarithm or a line.
struct WarmupRate {
  double low = 0, high = 0;
  double warmup = 1000;
  bool is_log = true;
  std::optional<double> steps{};  // then falls in a line, and is `low` behind so many steps; else it stays
};
// Parts of `base`: from `first` to 1 over the warm-up, then along half a cosine to `last` in step `steps`.
struct WarmupCosineRate {
  double base = 0, first = 0, last = 1e-4;
  double warmup = 1000;
  bool is_log = true;
  double steps = 0;
};
// From `low` to `high` in `up` steps, back in `down`, then divided by 1 + decay * the intervals of `every` steps.
struct OneCycleRate {
  double low = 0, high = 0;
  double up = 2000, down = 2000;
  double decay = 0, every = 0;  // 0: none
};
// Times 1 + growth * the intervals of `every` steps, of which parts count, or do not.
struct RangeTestRate {
  double low = 1e-3;
  double every = 2000, growth = 1;
  bool stairs = false;
};

// Ludwig's. From 0 to `base` in a line over the warm-up, and then as `decay` says, from its own step 0. It counts
// batches, of which a rank has `batches` in a step.
struct DecayRate {
  enum class Decay {
    none,
    linear,       // to 0 in batch `end`, in a line
    exponential,  // times `factor` for each `every` batches, of which parts count, or do not; one of them at once
    cosine,  // along half a cosine to `low`, and from `base` again: after `every` batches, then `growth` times so many
  };
  Decay decay = Decay::none;
  double base = 0;
  double batches = 1;
  double warmup = 0;  // a part of a batch counts
  double end = 0;
  double every = 1;
  double factor = 1;
  bool stairs = false;
  double growth = 1;
  double low = 0;
};

struct LearningRate {
  std::variant<std::monostate, WarmupRate, WarmupCosineRate, OneCycleRate, RangeTestRate, DecayRate> schedule{};
  explicit operator bool() const { return schedule.index() != 0; }
  // The rate of a step, from 0. Needs a schedule.
  double operator()(std::int64_t step) const;
};

struct TrainingConfig {
  std::optional<OptimizerOptions> optimizer{};
  LearningRate rate{};                            // empty: the config has no schedule
  std::optional<double> max_norm{};               // clip the norm of the gradient to this
  std::optional<GradScalerOptions> loss_scale{};  // with float16
  std::optional<std::int64_t> steps{};            // of the whole training
  // Examples in one forward of a rank, forwards of a rank in a step, and examples of all ranks in a step. The third is
  // the product of the others and the number of ranks. 0: not said.
  std::int64_t micro_batch = 0;
  std::int64_t accumulation = 0;
  std::int64_t global_batch = 0;
  // The config's keys that the members above come from.
  std::vector<std::string> keys{};
};

// The ranks that train. 0: not known yet; then nothing that depends on them is checked or derived.
struct JobSize {
  int ranks = 0;
  int ranks_of_host = 0;
};

struct Config {
  Strategy strategy{};
  TrainingConfig training{};
};

// Reads what DTRAIN_STRATEGY has: a word or JSON (strategy.h), or the JSON of DeepSpeed, Accelerate or Ludwig. Throws
// ConfigError, which names the key, for what makes no sense and for what cannot be carried out.
Config parse_config(const std::string& text, const JobSize& job);

}  // namespace dtrain
