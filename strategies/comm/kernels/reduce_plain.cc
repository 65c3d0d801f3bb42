// The reduction kernels for every CPU of the architecture; see reduce_loops.h.
#define DTRAIN_VECTOR_BYTES 16
#include "strategies/comm/kernels/reduce_loops.h"

namespace dtrain {

void reduce_plain(const ReduceJob& job) { reduce(job); }

}  // namespace dtrain
