#pragma once
// The shared memory of a group's ranks on one host, which are its members, and its layout. A rank of another host has
// only a block here, which says who it is, for messages to the user. shared_memory.h shares the memory.
//
//   | SegmentHeader | RankBlock 0 | RankBlock 1 | ... | slot 0a | slot 0b | slot 1a | slot 1b | ...   (of members)
//   | PairBlock 0->0 | 0->1 | ... | 1->0 | ... | ring 0->0 | 0->1 | ... | 1->0 | ...          (shm_ring.h)
//
// A page costs memory once it is touched: the ring of two ranks that never talk costs none. Ranks look at all their
// PairBlocks, so these lie close together.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "strategies/comm/base/call_origin.h"
#include "strategies/comm/base/shared_memory.h"
#include "strategies/comm/memory/arena_key.h"
#include "strategies/comm/memory/cache_line.h"

namespace dtrain {

struct alignas(kCacheLine) SegmentHeader {
  std::uint64_t token = 0;  // random: tells a peer that it has opened the right file
  std::uint32_t ranks = 0;
  std::uint32_t slot_bytes = 0;
  std::uint32_t members = 0;  // ranks that share this memory
  // 0, or the first failure of the group (failure.h). It is set once, and every rank sees it. A futex word.
  alignas(kCacheLine) std::atomic<std::uint32_t> failure{0};
  // The failure that `detail` describes: 0, then kBeingWritten, then that failure's word. The rank that sets
  // kBeingWritten writes the text, which ends with a 0, before it records the failure.
  static constexpr std::uint32_t kBeingWritten = ~std::uint32_t{0};
  std::atomic<std::uint32_t> told{0};
  char detail[256] = {};
  // How many members' flight recorders (flight.h) have dealt with the failure. A futex word.
  std::atomic<std::uint32_t> heeded{0};
};

// The collective that a rank is about to carry out; the other ranks compare it with theirs.
struct OpDescriptor {
  std::uint8_t op = 0;
  std::uint8_t type = 0;
  std::uint8_t reduction = 0;
  std::uint8_t unused = 0;
  std::int32_t root = -1;
  std::uint64_t count = 0;

  friend bool operator==(const OpDescriptor&, const OpDescriptor&) = default;
};

// What one rank says to all others. Only that rank writes here, but for `sleepers`, `missed` and the bell.
struct RankBlock {
  // How many synchronisation points the rank has reached. A futex word. The number wraps: compare by difference.
  alignas(kCacheLine) std::atomic<std::uint32_t> arrived{0};
  std::atomic<std::uint32_t> sleepers{0};                  // ranks asleep on `arrived`; these write it
  alignas(kCacheLine) std::atomic<std::uint32_t> left{0};  // 1 after the rank dropped the group
  // How often others have asked for this rank, and how many of these questions it has answered (blame.h).
  std::atomic<std::uint32_t> missed{0}, answered{0};
  std::int32_t pid = 0;    // as its own host counts
  std::int32_t seat = -1;  // how many members come before it; -1 for a rank of another host
  OpDescriptor ops[2];     // what the rank called, in even and odd steps
  // In even and odd steps: where the rank's tensor lies, in its arena (arena.h; never at 0) or in its own memory; or 0.
  // In an all_to_all whose parts have one size: that size plus 1.
  std::uint64_t places[2] = {0, 0};
  ArenaKey arena;  // written before the first place in the arena
  // While the group forms: where in the rank's own memory the others find first the token and then bytes to read on
  // trial (direct_reads.h); and from how many bytes on the rank would read the others' memory.
  std::uint64_t probe = 0;
  std::uint64_t least_direct = 0;
  std::uint32_t unread[2] = {0, 0};  // in even and odd steps: 1 if the rank could not read the others' memory
  CallOrigin origins[2];             // of what it called, in even and odd steps; read where that differs
  // The others ring the bell when they have written into one of the rank's rings or made room (p2p_bell.h). A futex
  // word.
  alignas(kCacheLine) std::atomic<std::uint32_t> bell{0};
  std::atomic<std::uint32_t> asleep{0};  // 1 while the rank may be asleep on `bell`, or its pipe
  std::int32_t pipe = -1;                // the rank's descriptor of its pipe, in a group over several hosts
};

// The ring of one rank's messages to another. It begins as zeros, as memory that nobody has written to.
struct PairBlock {
  alignas(kCacheLine) std::atomic<std::uint64_t> written;  // bytes in all; the sender writes it
  // The sender has more to send and no room: the receiver is to ring the sender's bell. The sender sets it before a
  // last look at `read`, and the receiver asks after a store to `read`, both sequentially consistent.
  std::atomic<std::uint32_t> wants_room;
  alignas(kCacheLine) std::atomic<std::uint64_t> read;  // bytes in all; the receiver writes it
};

class ShmSegment {
 public:
  // Make the segment of a group. `members` are in order; if the list is empty, all ranks are members. Throws
  // std::system_error.
  static ShmSegment create(std::uint32_t ranks, std::uint32_t slot_bytes, std::uint64_t token,
                           std::vector<int> members = {});
  // Map the segment that process `pid` holds as descriptor `fd`. Throws std::system_error; std::runtime_error if that
  // file is not the segment with this token.
  static ShmSegment open(int pid, int fd, std::uint64_t token);

  // See SharedMemory.
  int fd() const { return memory_.fd(); }
  void close_fd() { memory_.close_fd(); }

  SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(memory_.base()); }
  RankBlock& rank(int rank) const { return blocks()[rank]; }
  // The members, in order. The functions that follow are for members alone.
  const std::vector<int>& members() const { return members_; }
  std::byte* slot(int rank, std::uint32_t parity) const {
    const std::size_t index = static_cast<std::size_t>(this->rank(rank).seat) * 2 + parity;
    return slots_ + index * header().slot_bytes;
  }
  PairBlock& pair(int from, int to) const;
  std::byte* ring(int from, int to) const;
  std::size_t ring_bytes() const;

 private:
  RankBlock* blocks() const { return reinterpret_cast<RankBlock*>(memory_.base() + sizeof(SegmentHeader)); }
  void look_in();
  std::size_t pair_index(int from, int to) const;
  SharedMemory memory_;
  std::byte* slots_ = nullptr;
  std::vector<int> members_;
};

}  // namespace dtrain
