#include "launcher/agent/state_memory.h"

#include <fcntl.h>

#include <cerrno>

#include "launcher/guard/memory_file.h"

namespace dtrain::launcher {

Result<UniqueFd> StateMemory::of(int local_rank) {
  const auto place = size_t(local_rank);
  if (files_.size() <= place) files_.resize(place + 1);
  UniqueFd& file = files_[place];
  if (!file) {
    UniqueFd made = make_memory_file("dtrain-state", MFD_ALLOW_SEALING);
    if (!made || ::fcntl(made.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
      return system_error("cannot make the memory that keeps a worker's state (memfd_create)", errno);
    file = std::move(made);
  }
  UniqueFd handed(::fcntl(file.get(), F_DUPFD_CLOEXEC, 3));
  if (!handed) return system_error("cannot hand a worker the memory of its state", errno);
  return handed;
}

}  // namespace dtrain::launcher
