#pragma once
// Updates of each element by itself: those of SGD, Adam, AdamW and Adagrad, by torch's fused kernels. Where the types
// of values, gradient and state differ, an update goes through a small copy of each in one type.
#include "dtrain/optimizer.h"

namespace dtrain {

using Elementwise = std::variant<Sgd, Adam, AdamW, Adagrad>;

// What lies side by side and is updated with the same options. All tensors but `step` are 1-D, with as many elements.
struct Part {
  at::Tensor values;
  at::Tensor gradient;
  std::vector<at::Tensor> states;  // in the order of state_names()
  at::Tensor step;                 // float32, without dimensions: 1 in the first update
  std::uint64_t random = 0;        // for the rounding of a narrower state; another number for each update
  std::int64_t first_element = 0;  // in the parameter, for the same
  at::Tensor scale{};              // without dimensions: the gradient counts times this; undefined: as it is
};

// The gradient in this type, times the scale.
at::Tensor scaled_gradient(const Part& part, at::ScalarType type);

struct Rates {
  double lr = 0;
  double weight_decay = 0;
  bool first_update = false;  // of all parts
};

std::vector<std::string> state_names(const Elementwise& algorithm);

void update(const Elementwise& algorithm, const Rates& rates, const std::vector<Part>& parts);

// Copies `from`, float32, into `to`. If that is bfloat16, each element is rounded to one of its neighbours, to the
// nearer one more often, by random numbers that depend on `random` and the element's number alone.
void store_state(const at::Tensor& to, const at::Tensor& from, std::uint64_t random, std::int64_t first_element);

// The same numbers, in float32, by ATen's operations alone: for devices other than CPUs.
at::Tensor rounded_by_aten(const at::Tensor& from, std::uint64_t random, std::int64_t first_element);

}  // namespace dtrain
