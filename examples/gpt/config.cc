// See config.h.
#include "examples/gpt/config.h"

#include <algorithm>
#include <stdexcept>

namespace gpt {
namespace {

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::any_of(words.begin(), words.end(), [&](const auto& each) { return each.ends_with(word); });
}

void take_optimizer(Settings& settings, const dtrain::TrainingConfig& config) {
  if (!config.optimizer || has(settings.typed, "--optimizer")) return;
  settings.algorithm = config.optimizer;
  settings.optimizer = std::holds_alternative<dtrain::Muon>(*config.optimizer) ? "muon" : "";
  if (!has(settings.typed, "--lr"))
    settings.lr = std::visit([](const auto& algorithm) { return algorithm.lr; }, *config.optimizer);
}

void take_rate(Settings& settings, const dtrain::TrainingConfig& config) {
  if (!config.rate) return;
  if (has(settings.typed, "--lr"))
    throw std::runtime_error("--lr and the config's scheduler both say the learning rate; remove one of them");
  settings.rate = config.rate;
}

void take_batch(Settings& settings, const dtrain::TrainingConfig& config, int ranks) {
  if (config.global_batch > 0 && !has(settings.typed, "--global-batch")) settings.global_batch = config.global_batch;
  if (config.accumulation > 0 && !has(settings.typed, "--micro-batches")) settings.micro_batches = config.accumulation;
  const std::int64_t forwards = settings.micro_batches * ranks;
  if (settings.global_batch == config.micro_batch * forwards) return;
  const auto key = std::find_if(config.keys.begin(), config.keys.end(), [](const std::string& each) {
    return each.ends_with("train_micro_batch_size_per_gpu") || each == "trainer.batch_size";
  });
  if (key == config.keys.end()) return;
  throw std::runtime_error(
      "the config's " + *key + " is " + std::to_string(config.micro_batch) + ", and with " + std::to_string(forwards) +
      " forwards of all ranks in a step --global-batch " + std::to_string(settings.global_batch) + " must be " +
      std::to_string(config.micro_batch * forwards) + "; change --global-batch or --micro-batches, or remove the key");
}

}  // namespace

Settings with_config(Settings settings, const dtrain::TrainingConfig& config, int ranks) {
  if (config.loss_scale && !config.loss_scale->dynamic && config.loss_scale->init_scale == 1)
    throw std::runtime_error(
        "the config asks to leave out steps that overflow (check_grad_overflow), and gpt does not; set it to false");
  if (config.loss_scale)
    throw std::runtime_error("the config asks for float16, whose loss gpt does not scale; choose bfloat16 (bf16)");
  take_optimizer(settings, config);
  take_rate(settings, config);
  take_batch(settings, config, ranks);
  if (config.max_norm) settings.max_norm = *config.max_norm;
  if (config.steps && !has(settings.typed, "--steps")) settings.steps = *config.steps;
  return settings;
}

}  // namespace gpt
