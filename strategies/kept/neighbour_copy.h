#pragma once
// The second copy of a rank's state, in the memory of a rank on another node.
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

// The memory of this rank that holds the state of another one.
class NeighbourCopy {
 public:
  // `fd`: of the launcher's memory.
  explicit NeighbourCopy(int fd) : memory_(fd, "DTRAIN_STATE_COPY_FD") {}

  // What earlier rounds have left.
  const Found& find(std::uint64_t fingerprint) { return found_ = memory_.find(fingerprint); }
  const Found& found() const { return found_; }
  std::byte* values(std::size_t slot) const { return memory_.values(slot); }
  std::byte* extra(std::size_t slot) const { return memory_.extra(slot); }
  void forget_after(const Stamp& stamp) { memory_.forget_after(found_, stamp); }

  // All ranks call this: each sends its state, and receives that of the rank it is a neighbour of. `own`: the memory
  // with the state of this rank; `slot`: where that is, or nothing if this rank could not keep it. Throws
  // CollectiveError, and Refused if this rank has no room for what came.
  struct Own {
    const KeptMemory& memory;
    const Identity& identity;
    std::optional<std::size_t> slot;
    Slot what;
  };
  void exchange(const Group& group, const Neighbours& neighbours, const Own& own);

 private:
  void make_room(const Identity& identity);

  KeptMemory memory_;
  Found found_ = nothing_kept();
};

}  // namespace dtrain::kept
