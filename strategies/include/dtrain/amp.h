#pragma once
// Mixed precision: Autocast runs the operations of a forward in a narrower type where this is safe, and GradScaler
// keeps small gradients in float16 from becoming 0. With bfloat16 no GradScaler is needed.
//
//   dtrain::GradScaler scaler({}, sum);
//   {
//     const dtrain::Autocast half(torch::kCUDA, torch::kHalf);
//     loss = loss_of(model(x), y);
//   }
//   scaler.scale(loss).backward();
//   scaler.unscale(gradients);                                  // if they are clipped
//   dtrain::clip_by_global_norm(gradients, 1.0, sum);
//   scaler.step(optimizer, gradients);                          // or nothing, if a gradient is not finite
//   scaler.update();
//
// A run that goes on from a checkpoint needs the scale:
//
//   model.save(checkpoints, step, optimizer, scaler.save_into());
//   if (const auto loaded = model.load(checkpoints, optimizer)) scaler.restore(loaded->extra);
//
// Micikevicius et al., "Mixed Precision Training", ICLR 2018.
#include <memory>
#include <string>
#include <vector>

#include "dtrain/loss_scale.h"
#include "dtrain/optimizer.h"

namespace dtrain {

// As long as it lives, operations of this thread on tensors of this kind of device run as torch.autocast runs them.
// When it ends, what was before holds again. Guards may be nested; a guard with `enabled` false turns it off within.
// End it before backward, as in the example: backward runs each operation in the type of its forward.
class Autocast {
 public:
  Autocast(at::DeviceType device, at::ScalarType type, bool enabled = true);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType device_;
  bool was_enabled_;
  at::ScalarType was_type_;
};

// The scale is the same on all ranks, as long as all make the same calls. One thread at a time uses a GradScaler.
// Gradients are those of ShardedOptimizer::step(): a flat tensor for each run, or undefined.
class GradScaler {
 public:
  // Throws ConfigError if an option is out of its range. `sum`: as that of the optimizer.
  explicit GradScaler(const GradScalerOptions& options = {}, SumOverRanks sum = {});

  // The loss times the scale. No collective.
  at::Tensor scale(const at::Tensor& loss) const;
  // Collective, if `sum` is one. Divides the gradients by the scale, and learns whether all are finite on all ranks.
  // Call it where gradients are looked at or clipped before step(). Throws ConfigError if it is called again before
  // update(), and does nothing after step().
  void unscale(const std::vector<at::Tensor>& gradients);
  // Unscales the gradients, if unscale() has not, and then makes the optimizer's step if all of them are finite on all
  // ranks. Returns whether it did. Collective as unscale() and the optimizer's step() are. Waits for a GPU. Throws
  // ConfigError if it is called again before update().
  bool step(ShardedOptimizer& optimizer, const std::vector<at::Tensor>& gradients);
  // The scale of the next step: smaller after gradients that were not finite, larger after growth_interval steps. Call
  // it after each step(). No collective.
  void update();

  double scale() const { return state_.scale; }
  const GradScalerState& state() const { return state_; }
  void load(const GradScalerState& state) { state_ = state; }

  // For a checkpoint: `extra`, a JSON object or empty, with the state under the key `key`. The numbers keep all their
  // bits, and the text is the same on all ranks. Give each scaler of a program a key of its own. Throws ConfigError if
  // `extra` is something else, or if it is called between unscale() and update(): the step is not over then.
  std::string save_into(const std::string& extra = {}, const std::string& key = "grad_scaler") const;
  // Goes on where save_into() was called, with this scaler's own options. All ranks give the same text. A scaler that
  // is not enabled checks the text and takes nothing from it. Throws ConfigError if the text is not from save_into(),
  // or from a scaler that was not enabled and so has no scale for this one; then nothing has changed.
  void restore(const std::string& extra, const std::string& key = "grad_scaler");

 private:
  enum class Stage { scaled, unscaled, stepped };
  void find_not_finite(const std::vector<at::Tensor>& gradients);
  void change_scale();
  GradScalerOptions options_;
  SumOverRanks sum_;
  GradScalerState state_{};
  Stage stage_ = Stage::scaled;
  bool is_finite_ = true;
};

}  // namespace dtrain
