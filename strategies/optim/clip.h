#pragma once
// The two halves of clipping, for gradients that are not scaled in place.
#include "dtrain/optimizer.h"

namespace dtrain {

// As clip_by_global_norm() and clip_by_largest() find them. Collective, if the function is one.
at::Tensor global_norm_of(const std::vector<at::Tensor>& gradients, const SumOverRanks& sum);
at::Tensor largest_of(const std::vector<at::Tensor>& gradients, const MaxOverRanks& max);

// What gradients of this norm are multiplied by, a float64 tensor without dimensions on the device of the norm; or an
// undefined one, where it is known without waiting for a device that they need no change.
at::Tensor clip_factor(const at::Tensor& norm, double limit);

// Multiplies the gradients by it, if it is defined.
void scale_down(const std::vector<at::Tensor>& gradients, const at::Tensor& factor);

// Throws ConfigError if the limit is none.
void require_clip_limit(const char* function, double limit);

}  // namespace dtrain
