// The reduction kernels for CPUs with AVX2 and F16C; see reduce_loops.h.
#define DTRAIN_VECTOR_BYTES 32
#include "strategies/comm/kernels/reduce_loops.h"

namespace dtrain {

void reduce_avx2(const ReduceJob& job) { reduce(job); }

}  // namespace dtrain
