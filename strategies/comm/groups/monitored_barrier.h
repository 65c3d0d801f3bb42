#pragma once
// A barrier that finds out which ranks are missing. It is made of messages, so it does not count as one of the group's
// collectives.
#include "strategies/comm/groups/group.h"

namespace dtrain {

// Collective, on the calling thread. Rank 0 waits for all others until the timeout. If some ranks do not come, rank 0
// throws a CollectiveError that names all of them, and all other ranks throw FailureKind::timed_out of the first
// missing rank. If rank 0 does not come, each of the others names it at its own timeout. After a failure the group is
// broken.
void monitored_barrier(CommGroup& group, int rank, int ranks, CommGroup::Timeout timeout);

}  // namespace dtrain
