#pragma once
// The second copy of a rank's state, in the memory of a rank on another node; and the messages that such copies need.
#include <cstddef>
#include <optional>
#include <string>

#include "dtrain/group.h"
#include "strategies/kept/kept_memory.h"
#include "strategies/kept/restore_plan.h"

namespace dtrain::kept {

// The tag of messages about the kept state, on the group of all ranks.
inline constexpr int kMessageTag = 0x6b657074;

// A number of bytes that two ranks exchange: one sends `out` while it receives into `in`, in messages of a bounded
// size. What comes is forgotten where `in` is null. Blocks. Throws CollectiveError.
struct Bytes {
  std::byte* data = nullptr;
  std::size_t count = 0;
};
void exchange_bytes(const Group& group, int to, Bytes out, int from, Bytes in);

// All ranks call this: each sends its state, and receives that of the rank it is a neighbour of into `copy`. `own`: the
// memory with the state of this rank; `slot`: where that is, or nothing if this rank could not keep it. Throws
// CollectiveError, and Refused if this rank has no room for what came.
void exchange_copies(const Group& group, const Neighbours& neighbours, const KeptMemory& own,
                     std::optional<std::size_t> slot, KeptMemory& copy);

}  // namespace dtrain::kept
