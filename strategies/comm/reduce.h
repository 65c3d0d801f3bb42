#pragma once
// Reduces the same elements of several ranks' buffers, in rank order: for a given world size the result is the same
// bits on every rank and in every run. Pure.
#include <cstddef>
#include <vector>

#include "strategies/comm/element.h"

namespace dtrain {

// out[i] = sources[0][i] op sources[1][i] op ... for `count` elements. float16 and bfloat16 are accumulated in float32
// and rounded once; integers wrap; a NaN in any source wins. `out` may be one of the sources; otherwise no overlap.
// avg needs a floating type.
void reduce_in_order(ElementType type, Reduction reduction, const std::vector<const std::byte*>& sources,
                     std::byte* out, std::size_t count);

}  // namespace dtrain
