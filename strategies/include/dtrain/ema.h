#pragma once
// Ema: an exponential moving average of a rank's shards, for evaluation. Polyak and Juditsky, "Acceleration of
// Stochastic Approximation by Averaging", SIAM J. Control and Optimization 1992.
//
//   dtrain::Ema average(runs, 0.999);
//   optimizer.step(gradients);
//   average.update();          // after each step
//   ...
//   average.swap_in();         // the shards have the averages now
//   evaluate();
//   average.swap_out();        // train on
//
// With Parallel, `runs` are model.runs(), and the two are steps, which bring the values to the other ranks:
// model.step([&] { average.swap_in(); }). No call is a collective. One thread at a time uses an Ema.
#include <cstdint>
#include <vector>

#include "dtrain/shards.h"
#include "dtrain/worker_env.h"

namespace dtrain {

class Ema {
 public:
  // Keeps the tensors of `runs`, and allocates an average for each: float64 for float64 values, else float32. Throws
  // ConfigError if the decay is not in [0, 1).
  explicit Ema(const std::vector<ShardRun>& runs, double decay = 0.999);

  // average = decay * average + (1 - decay) * values. The first call copies the values, as torch's AveragedModel does.
  // Throws ConfigError between swap_in() and swap_out().
  void update();

  // The values of the shards become the averages. The values are kept in memory of their own until swap_out(). Throws
  // ConfigError if the averages are in already, or before the first update().
  void swap_in();
  // The values of the shards are what they were, bit by bit. Throws ConfigError without a swap_in() before.
  void swap_out();

  std::int64_t updates() const { return updates_; }
  // The averages, one flat tensor for each run: for a checkpoint, and to load one into them together with updates().
  const std::vector<at::Tensor>& averages() const { return averages_; }
  void set_updates(std::int64_t updates) { updates_ = updates; }

 private:
  std::vector<at::Tensor> values_, averages_, kept_;
  double decay_;
  std::int64_t updates_ = 0;
  bool is_in_ = false;
};

}  // namespace dtrain
