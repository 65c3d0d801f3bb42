#pragma once
// What a second run must find as the first run found it, beside its arguments.
#include <ATen/autocast_mode.h>

#include <array>
#include <utility>
#include <vector>

#include "strategies/torch/compat.h"

namespace dtrain {

// The default generators: the CPU's, and those of the GPUs that have one of these tensors.
class RandomState {
 public:
  static RandomState now(const std::vector<at::Tensor>& tensors);
  RandomState again() const;  // the present state of the same generators
  void set() const;

 private:
  std::vector<std::pair<at::Device, at::Tensor>> states_;
};

struct AutocastState {
  static AutocastState now();
  void set() const;

  std::array<bool, at::autocast::_AUTOCAST_SUPPORTED_DEVICES.size()> enabled{};
  std::array<at::ScalarType, at::autocast::_AUTOCAST_SUPPORTED_DEVICES.size()> types{};
  bool keeps_casts = true;
};

// While it lives, this thread runs as the first run did. Then everything is as it was before.
class AsInFirstRun {
 public:
  AsInFirstRun(const RandomState& random, const AutocastState& autocast);
  ~AsInFirstRun();
  AsInFirstRun(const AsInFirstRun&) = delete;
  AsInFirstRun& operator=(const AsInFirstRun&) = delete;

 private:
  RandomState random_before_;
  AutocastState autocast_before_;
  torch::AutoGradMode with_gradients_;
};

}  // namespace dtrain
