#pragma once
// Parallel as Ddp (dtrain/ddp.h).
#include "dtrain/parallel.h"

namespace dtrain {

std::shared_ptr<ParallelCore> make_parallel_ddp(Session& session, const Strategy& strategy,
                                                const ParallelOptions& options);

}  // namespace dtrain
