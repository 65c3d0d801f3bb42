#pragma once
// A norm whose bits do not depend on how the gradients are divided.
#include <vector>

#include "dtrain/group.h"

namespace dtrain {

// Collective of `sharing`. Scales the gradients, which are on `device`, so that their norm over all ranks is at most
// `max_norm`, and returns the norm that they had, a scalar in float64. The squares are added up as whole numbers, so
// their order is of no matter, as in Demmel and Nguyen, "Fast Reproducible Floating-Point Summation", ARITH 2013, with
// one fold for all. If the norm is not finite, the gradients are not finite either afterwards.
at::Tensor clip_by_exact_norm(const std::vector<at::Tensor>& gradients, double max_norm, const Group& sharing,
                              at::Device device);

}  // namespace dtrain
