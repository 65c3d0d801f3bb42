#pragma once
// A norm whose bits do not depend on how the gradients are divided.
#include <vector>

#include "dtrain/group.h"

namespace dtrain {

// Collective of `sharing`. The norm of the gradients, which are on `device`, over all ranks: a scalar in float64, in
// the CPU's memory. The squares are added up as whole numbers, so their order is of no matter, as in Demmel and Nguyen,
// "Fast Reproducible Floating-Point Summation", ARITH 2013, with one fold for all.
at::Tensor exact_norm_of(const std::vector<at::Tensor>& gradients, const Group& sharing, at::Device device);

}  // namespace dtrain
