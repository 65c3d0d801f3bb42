#pragma once
// Parallel with zero1, zero2 and fsdp: groups of parameters (shard/shard_group.h), and what happens with them when
// (shard/unshard_core.h).
#include "dtrain/parallel.h"

namespace dtrain {

// Collective.
std::shared_ptr<ParallelCore> make_parallel_sharded(Session& session, const Strategy& strategy,
                                                    const ParallelOptions& options);

}  // namespace dtrain
