#pragma once
// What reduce.cc hands to the kernels, one for each kind of CPU. Plain data: see reduce_loops.h for why.
#include <cstddef>

#include "strategies/comm/kernels/element.h"

namespace dtrain {

struct ReduceJob {
  ElementType type;
  Reduction reduction;  // defined for the type
  const std::byte* const* sources;
  std::size_t ranks;  // sources, at least 1
  std::byte* out;
  std::size_t count;             // elements
  std::size_t average_over = 0;  // what an average divides by; 0: by `ranks`
};

using ReduceKernel = void(const ReduceJob&);

ReduceKernel reduce_plain;   // what every CPU of the architecture has: SSE2, NEON
ReduceKernel reduce_avx2;    // AVX2 and F16C
ReduceKernel reduce_avx512;  // AVX-512 F, BW, DQ and VL

}  // namespace dtrain
