#pragma once
// Learning-rate schedules: pure functions from the number of a step to a factor of the base rate. A schedule has no
// state, so a run that goes on after a checkpoint needs the number of the step alone.
//
//   const auto schedule = dtrain::after_warmup(1000, dtrain::cosine(99'000, 0.1));
//   for (std::int64_t step = 0; step < 100'000; ++step) {
//     optimizer.set_lr(base_lr * schedule(step));   // before the step; the first is 0
//     ...
//   }
//
// Each gives the rates of the class of torch.optim.lr_scheduler that its comment names. Its functions throw ConfigError
// if a number is out of its range. Pure: no I/O, no torch. Tested by test/unit/strategies/optim/schedule_test.cc
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/worker_env.h"

namespace dtrain {

// The factor of the base rate in a step, from 0.
using Schedule = std::function<double(std::int64_t step)>;

// 1 in every step, or another factor.
Schedule constant(double factor = 1);

// From `start` in step 0 to `end` in step `steps`, and `end` after it (LinearLR). With start=0 a warm-up; from 1 to 0
// a linear decay.
Schedule linear(std::int64_t steps, double start, double end);

// From 1 in step 0 to `final_ratio` in step `steps`, along half a cosine (CosineAnnealingLR), and `final_ratio` after
// it: Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", ICLR 2017.
Schedule cosine(std::int64_t steps, double final_ratio = 0);

// Times `factor` after every `every` steps (StepLR).
Schedule step_decay(std::int64_t every, double factor = 0.1);

// Times `factor` after every step (ExponentialLR).
Schedule exponential(double factor);

// The base rate is the largest one. From 1 / start_divisor it rises to 1, until `rising_part` of the steps is done, and
// falls to 1 / (start_divisor * end_divisor) in the last of `steps` steps; along cosines, or along lines (OneCycleLR
// with cycle_momentum=False). After them it stays. Smith and Topin, "Super-Convergence: Very Fast Training of Neural
// Networks Using Large Learning Rates", 2017, arXiv:1708.07120.
struct OneCycle {
  std::int64_t steps = 0;  // 2 or more
  double rising_part = 0.3;
  double start_divisor = 25;
  double end_divisor = 1e4;
  bool is_linear = false;
};
Schedule one_cycle(const OneCycle& options);

// Rises in a line from `start` in step 0 to 1 in step `steps`; that step is step 0 of `next` (SequentialLR).
Schedule after_warmup(std::int64_t steps, Schedule next, double start = 0);

// One schedule after another (SequentialLR). Each begins with its own step 0. `until` are the steps in which the second
// and the further ones begin; they increase.
Schedule chained(std::vector<Schedule> schedules, std::vector<std::int64_t> until);

// A factor that falls when a metric no longer improves (ReduceLROnPlateau). All ranks give the same metric, so sum it
// over the ranks first; then they have the same factor.
//
//   dtrain::Plateau plateau({.factor = 0.5});
//   if (const auto loaded = model.load(checkpoints, optimizer)) plateau.restore(loaded->extra);
//   optimizer.set_lr(base_lr * plateau.factor());
//   ...
//   optimizer.set_lr(base_lr * plateau.step(validation_loss));   // after each evaluation
//   model.save(checkpoints, step, optimizer, plateau.save_into());
struct PlateauOptions {
  double factor = 0.1;      // above 0 and below 1
  int patience = 10;        // evaluations without an improvement that change nothing
  double threshold = 1e-4;  // an improvement is larger than this
  bool is_relative = true;  // the threshold is a part of the best metric, not a difference
  bool larger_is_better = false;
  int cooldown = 0;       // evaluations after a change that are not counted
  double min_factor = 0;  // min_lr of torch, over the base rate
};

// All that a Plateau knows. Plateau::save_into() has it as text.
struct PlateauState {
  double factor = 1;
  std::optional<double> best{};  // nothing before the first metric
  int bad_evaluations = 0;
  int cooldown_left = 0;
};

class Plateau {
 public:
  explicit Plateau(const PlateauOptions& options = {});
  // Feed the metric of an evaluation. Returns the factor of the base rate from now on. A NaN is no improvement.
  double step(double metric);
  double factor() const { return state_.factor; }
  const PlateauState& state() const { return state_; }
  void load(const PlateauState& state) { state_ = state; }

  // For a checkpoint: `extra`, a JSON object or empty, with the state under the key `key`. The numbers keep all their
  // bits. Give each Plateau of a program a key of its own. Throws ConfigError if `extra` is something else.
  std::string save_into(const std::string& extra = {}, const std::string& key = "plateau") const;
  // Goes on where save_into() was called. It takes the state, and none of the options. Throws ConfigError if the text
  // is not from save_into(); then nothing has changed.
  void restore(const std::string& extra, const std::string& key = "plateau");

 private:
  bool is_better(double metric) const;
  PlateauOptions options_;
  PlateauState state_{};
};

}  // namespace dtrain
