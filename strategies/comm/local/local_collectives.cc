// How the ranks of a host come together and leave; see local_collectives.h.
#include "strategies/comm/local/local_collectives.h"

#include <utility>

#include "strategies/comm/base/own_process.h"

namespace dtrain {

LocalCollectives::LocalCollectives(ShmSegment segment, int rank, bool has_cores, ShmWait::Deadline deadline)
    : process_(own_process()), steps_(std::move(segment), rank, has_cores), reads_(steps_), reductions_(steps_) {
  try {
    steps_.watch_members();
    reads_.agree(deadline);
  } catch (...) {
    leave();
    throw;
  }
}

LocalCollectives::~LocalCollectives() { leave(); }

void LocalCollectives::leave() noexcept {
  if (own_process() == process_) steps_.own_block().left.store(1, std::memory_order_release);
}

}  // namespace dtrain
