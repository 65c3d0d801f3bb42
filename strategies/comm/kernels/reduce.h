#pragma once
// Reduces the same elements of several ranks' buffers, in rank order: for a given world size the result is the same
// bits on every rank, in every run and on every CPU. Pure.
#include <cstddef>
#include <span>
#include <vector>

#include "strategies/comm/kernels/element.h"
#include "strategies/comm/kernels/reduce_kernels.h"

namespace dtrain {

// out[i] = sources[0][i] op sources[1][i] op ... for `count` elements. float16 and bfloat16 are accumulated in float32
// and rounded once, to nearest even; integers wrap; a NaN in any source wins and comes out as the one positive quiet
// NaN, whatever its bits were. Buffers need no alignment. `out` may be one of the
// sources; otherwise no overlap. An average divides by `average_over`; 0: by the number of sources. Throws
// std::invalid_argument where is_defined(reduction, type) is false.
void reduce_in_order(ElementType type, Reduction reduction, const std::vector<const std::byte*>& sources,
                     std::byte* out, std::size_t count, std::size_t average_over = 0);

// The kernels that this CPU can run, slowest first; reduce_in_order takes the last. All give the same bits.
struct ReduceVariant {
  const char* name;
  ReduceKernel* run;
};
std::span<const ReduceVariant> reduce_variants();

}  // namespace dtrain
