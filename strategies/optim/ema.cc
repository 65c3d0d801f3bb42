// Ema; see include/dtrain/ema.h.
#include "dtrain/ema.h"

#include <fmt/format.h>

#include <algorithm>

namespace dtrain {
namespace {

constexpr std::int64_t kEmaPiece = 1024 * 1024;  // of values that need a copy in the type of their average

void add_to_average(const at::Tensor& average, const at::Tensor& values, double weight) {
  if (average.scalar_type() == values.scalar_type()) {
    average.lerp_(values, weight);
    return;
  }
  for (std::int64_t begin = 0; begin < values.numel(); begin += kEmaPiece) {
    const auto count = std::min(kEmaPiece, values.numel() - begin);
    average.narrow(0, begin, count).lerp_(values.narrow(0, begin, count).to(average.scalar_type()), weight);
  }
}

void demand_of_ema(bool holds, const char* what) {
  if (!holds) throw ConfigError(fmt::format("dtrain: Ema: {}", what));
}

}  // namespace

Ema::Ema(const std::vector<ShardRun>& runs, double decay) : decay_(decay) {
  demand_of_ema(decay >= 0 && decay < 1,
                "the decay is out of its range; choose a number that is 0 or more and below 1");
  for (const ShardRun& run : runs) {
    const auto type = run.values.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    values_.push_back(run.values.detach());
    averages_.push_back(at::zeros_like(values_.back(), values_.back().options().dtype(type)));
  }
}

void Ema::update() {
  const torch::NoGradGuard no_grad;
  demand_of_ema(!is_in_, "update() between swap_in() and swap_out(); call swap_out() before the next step");
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (updates_ == 0) {
      averages_[i].copy_(values_[i]);
    } else {
      add_to_average(averages_[i], values_[i], 1 - decay_);
    }
  }
  ++updates_;
}

void Ema::swap_in() {
  const torch::NoGradGuard no_grad;
  demand_of_ema(!is_in_, "swap_in() was called twice; call swap_out() before it");
  demand_of_ema(updates_ > 0, "swap_in() before the first update(); there is no average yet");
  for (std::size_t i = 0; i < values_.size(); ++i) {
    kept_.push_back(values_[i].clone());
    values_[i].copy_(averages_[i]);
  }
  is_in_ = true;
}

void Ema::swap_out() {
  const torch::NoGradGuard no_grad;
  demand_of_ema(is_in_, "swap_out() without a swap_in() before it");
  for (std::size_t i = 0; i < values_.size(); ++i) values_[i].copy_(kept_[i]);
  kept_.clear();
  is_in_ = false;
}

}  // namespace dtrain
