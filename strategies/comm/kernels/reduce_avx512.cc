// The reduction kernels for CPUs with AVX-512 F, BW, DQ and VL; see reduce_loops.h.
#define DTRAIN_VECTOR_BYTES 64
#include "strategies/comm/kernels/reduce_loops.h"

namespace dtrain {

void reduce_avx512(const ReduceJob& job) { reduce(job); }

}  // namespace dtrain
