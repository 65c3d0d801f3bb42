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
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/errors.h"
#include "dtrain/loss_scale.h"
#include "dtrain/optimizer_options.h"
#include "dtrain/strategy.h"

namespace dtrain {

// The rate of a step, from 0.
using LearningRate = std::function<double(std::int64_t step)>;

struct TrainingConfig {
  std::optional<OptimizerOptions> optimizer{};
  LearningRate rate{};                            // empty: the config has no schedule
  std::optional<double> max_norm{};               // clip the norm of the gradient to this
  std::optional<GradScalerOptions> loss_scale{};  // with float16
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
