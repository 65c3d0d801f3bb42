// The updates, rates and scales that optim_parity.py compares with those of Python's torch. Saves them as tensors, by
// the names that it asks for.
//
// usage: optim_steps FILE
#include <fstream>
#include <iostream>

#include "dtrain/amp.h"
#include "dtrain/optimizer.h"
#include "dtrain/schedule.h"

namespace {

using namespace dtrain;
using Saved = c10::Dict<std::string, torch::Tensor>;

constexpr int kSteps = 8;
constexpr int kRates = 60;
const std::vector<std::vector<std::int64_t>> kShapes = {{40, 24}, {40}, {24, 48}, {1, 1}, {7, 5, 3}};

struct Case {
  std::string name;
  OptimizerOptions algorithm;
  at::ScalarType type = at::kFloat;
};

std::vector<Case> cases() {
  return {
      {"sgd", Sgd{.lr = 0.1}},
      {"sgd momentum", Sgd{.lr = 0.1, .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.01}},
      {"sgd nesterov", Sgd{.lr = 0.1, .momentum = 0.9, .nesterov = true}, at::kDouble},
      {"adam", Adam{.lr = 0.01, .betas = {0.8, 0.99}, .eps = 1e-6, .weight_decay = 0.1}},
      {"adamw", AdamW{.lr = 0.01, .weight_decay = 0.1}},
      {"adamw double", AdamW{.lr = 0.01, .weight_decay = 0.1}, at::kDouble},
      {"adamw bfloat16", AdamW{.lr = 0.01, .weight_decay = 0.1}, at::kBFloat16},
      {"adagrad", Adagrad{.lr = 0.1, .lr_decay = 0.1, .weight_decay = 0.01, .initial_accumulator_value = 0.1}},
      {"muon", Muon{.lr = 0.02, .adamw = {.lr = 0.01}}},
      {"muon match_rms_adamw", Muon{.lr = 0.02, .nesterov = false, .adjust_lr_fn = MuonRate::match_rms_adamw}},
      {"muon spectral_unclamped", Muon{.lr = 0.02, .ns_steps = 3, .adjust_lr_fn = MuonRate::spectral_unclamped}},
  };
}

void take_steps(const Case& one, Saved& saved) {
  std::int64_t size = 0;
  for (const auto& shape : kShapes) size += at::empty(shape).numel();
  const auto start = torch::randn({size}).to(one.type);
  const auto gradients = torch::randn({kSteps, size}).to(one.type);
  ShardRun run{start.clone(), {}};
  std::int64_t begin = 0;
  for (const auto& shape : kShapes) {
    const auto count = at::empty(shape).numel();
    run.shards.push_back({"p" + std::to_string(run.shards.size()), shape, 0, run.values.narrow(0, begin, count)});
    begin += count;
  }
  ShardedOptimizerOptions options;
  options.algorithm = one.algorithm;
  ShardedOptimizer optimizer(options, {run});
  const double lr = optimizer.lr();
  for (int step = 0; step < kSteps; ++step) {
    optimizer.set_lr(lr * (step < kSteps / 2 ? 1 : 0.5));
    optimizer.step({gradients[step]});
  }
  saved.insert(one.name + " before", start);
  saved.insert(one.name + " gradients", gradients);
  saved.insert(one.name + " after", run.values);
}

void keep_rates(const std::string& name, const Schedule& schedule, Saved& saved) {
  const auto rates = torch::zeros(kRates, torch::kDouble);
  for (int step = 0; step < kRates; ++step) rates[step] = schedule(step);
  saved.insert("rates " + name, rates);
}

void keep_all_rates(Saved& saved) {
  keep_rates("linear", linear(20, 0.25, 1), saved);
  keep_rates("cosine", cosine(59, 0.1), saved);
  keep_rates("step", step_decay(7, 0.5), saved);
  keep_rates("exponential", exponential(0.9), saved);
  keep_rates("one cycle", one_cycle({.steps = kRates, .start_divisor = 10, .end_divisor = 50}), saved);
  keep_rates("one cycle linear", one_cycle({.steps = kRates, .rising_part = 0.5, .is_linear = true}), saved);
  keep_rates("warm-up", after_warmup(10, cosine(49), 0.1), saved);
}

// A metric that falls, stays and rises.
void keep_plateau(const std::string& name, const PlateauOptions& options, double sign, Saved& saved) {
  Plateau plateau(options);
  const auto metrics = torch::zeros(kRates, torch::kDouble), rates = torch::zeros(kRates, torch::kDouble);
  for (int step = 0; step < kRates; ++step) {
    const double metric =
        sign * (2 + std::max(0, 20 - step) * 0.05 + (step % 7 == 0 ? 0.1 : 0) - (step > 45 ? 0.5 : 0));
    metrics[step] = metric;
    rates[step] = plateau.step(metric);
  }
  saved.insert("metrics " + name, metrics);
  saved.insert("rates " + name, rates);
}

void keep_scales(Saved& saved) {
  const auto found = torch::rand(kRates).lt(0.2);
  const ShardRun run{torch::zeros(4), {}};
  ShardRun whole{run.values, {{"p", {4}, 0, run.values.narrow(0, 0, 4)}}};
  ShardedOptimizerOptions options;
  options.algorithm = Sgd{.lr = 1};
  ShardedOptimizer optimizer(options, {whole});
  GradScaler scaler({.init_scale = 1024, .growth_interval = 3});
  const auto scales = torch::zeros(kRates, torch::kDouble), values = torch::zeros(kRates);
  for (int step = 0; step < kRates; ++step) {
    const auto gradient = torch::full(4, scaler.scale());
    if (found[step].item<bool>()) gradient[1] = std::numeric_limits<float>::infinity();
    scaler.step(optimizer, {gradient});
    scaler.update();
    scales[step] = scaler.scale();
    values[step] = run.values[0];
  }
  saved.insert("found", found);
  saved.insert("scales", scales);
  saved.insert("scaled values", values);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: optim_steps FILE\n";
    return 2;
  }
  torch::set_num_threads(1);
  torch::manual_seed(1);
  Saved saved;
  for (const Case& one : cases()) take_steps(one, saved);
  keep_all_rates(saved);
  keep_plateau("plateau", {.factor = 0.5, .patience = 2, .cooldown = 1, .min_factor = 0.01}, 1, saved);
  keep_plateau("plateau largest",
               {.factor = 0.5, .patience = 3, .threshold = 0.02, .is_relative = false, .larger_is_better = true}, -1,
               saved);
  keep_scales(saved);
  const std::vector<char> bytes = torch::pickle_save(saved);
  std::ofstream(arguments[1], std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return 0;
}
