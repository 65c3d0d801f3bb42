#pragma once
// The memory in which the workers of this node keep their training state (--keep-state). It is the agent's: a worker
// that dies leaves it as it is, and the next round's worker of the same local rank gets it. It has no name, so nothing
// of it is left when the agent and the workers have ended; StateKeeper writes it to a file before, if it is to stay.
// Tested by test/process/launcher/state_test.py.
#include <vector>

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

class StateMemory {
 public:
  // A descriptor for the worker of this local rank. The first call makes its memory, which is empty: the worker lets it
  // grow. It is sealed against shrinking, so what one process has mapped does not vanish when another one writes.
  Result<UniqueFd> of(int local_rank);
  // The next call makes an empty one.
  void forget(int local_rank) { files_[size_t(local_rank)].reset(); }

 private:
  std::vector<UniqueFd> files_;  // by local rank
};

}  // namespace dtrain::launcher
