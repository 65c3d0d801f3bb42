#pragma once
// The shared memory of a group's ranks on one host, its members, and its layout. Where the group has ranks elsewhere
// too, each has a block here and no more: who it is, for messages. How the memory is shared: shared_memory.h.
//
//   | SegmentHeader | RankBlock 0 | RankBlock 1 | ... | slot 0a | slot 0b | slot 1a | slot 1b | ...   (of members)
//   | PairBlock 0->0 | 0->1 | ... | 1->0 | ... | ring 0->0 | 0->1 | ... | 1->0 | ...          (shm_ring.h)
//
// A page costs memory once it is touched: the ring of two ranks that never talk costs none. Their PairBlocks are looked
// at, so they lie close together.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "strategies/comm/arena_key.h"
#include "strategies/comm/cache_line.h"
#include "strategies/comm/shared_memory.h"

namespace dtrain {

struct alignas(kCacheLine) SegmentHeader {
  std::uint64_t token = 0;  // random; a peer that opened the wrong file does not find it
  std::uint32_t ranks = 0;
  std::uint32_t slot_bytes = 0;
  std::uint32_t members = 0;  // ranks that share this memory
  // 0, or the first failure of the group (failure.h); set once, seen by every rank. A futex word.
  alignas(kCacheLine) std::atomic<std::uint32_t> failure{0};
  // What more is known of a failure, and of which: 0, then kBeingWritten, then that failure's word. Whoever makes it
  // kBeingWritten writes the text, which ends with a 0, before it records the failure.
  static constexpr std::uint32_t kBeingWritten = ~std::uint32_t{0};
  std::atomic<std::uint32_t> told{0};
  char detail[256] = {};
  // Members whose flight recorder (flight.h) has dealt with the failure; a futex word.
  std::atomic<std::uint32_t> heeded{0};
};

// What a rank is about to do, for the others to compare with.
struct OpDescriptor {
  std::uint8_t op = 0;
  std::uint8_t type = 0;
  std::uint8_t reduction = 0;
  std::uint8_t unused = 0;
  std::int32_t root = -1;
  std::uint64_t count = 0;

  friend bool operator==(const OpDescriptor&, const OpDescriptor&) = default;
};

// Written by its rank alone, but for `missed`, and read by all.
struct RankBlock {
  // How many synchronisation points the rank has reached; a futex word. It wraps: compare by difference.
  alignas(kCacheLine) std::atomic<std::uint32_t> arrived{0};
  std::atomic<std::uint32_t> sleepers{0};                  // ranks asleep on `arrived`; written by those
  alignas(kCacheLine) std::atomic<std::uint32_t> left{0};  // 1 after the rank dropped the group
  // How often others have asked where the rank is, and up to which of these it has answered (blame.h).
  std::atomic<std::uint32_t> missed{0}, answered{0};
  std::int32_t pid = 0;    // on its host
  std::int32_t seat = -1;  // how many members come before it; -1 for a rank of another host
  OpDescriptor ops[2];     // of even and odd operations
  // Of the same: 0, or where its tensor lies, in the rank's arena (arena.h; never 0 there) or in its own memory; of an
  // all_to_all whose parts are equal their size and 1.
  std::uint64_t places[2] = {0, 0};
  ArenaKey arena;  // written before the first of those places
  // While the group forms: where in the rank's own memory the others find the token first, and then bytes to read; and
  // from how many bytes on it would read theirs.
  std::uint64_t probe = 0;
  std::uint64_t least_direct = 0;
  std::uint32_t unread[2] = {0, 0};  // of even and odd operations: 1 where it could not
  // Rung by the others when they wrote into one of its rings or made room (p2p_bell.h); a futex word.
  alignas(kCacheLine) std::atomic<std::uint32_t> bell{0};
  std::atomic<std::uint32_t> asleep{0};  // 1 while the rank may be asleep on `bell`, or its pipe
  std::int32_t pipe = -1;                // its descriptor for it, in a group over several hosts
};

// The ring of one rank's messages to another. In memory that nobody wrote to it is all zeros, as it begins.
struct PairBlock {
  alignas(kCacheLine) std::atomic<std::uint64_t> written;  // bytes in all; of the sender
  // The sender has more and no room: the receiver is to ring. Set before a last look at `read`, and asked after a
  // store to it, both sequentially consistent.
  std::atomic<std::uint32_t> wants_room;
  alignas(kCacheLine) std::atomic<std::uint64_t> read;  // of the receiver
};

class ShmSegment {
 public:
  // Make the segment of a group. `members`: in order; none: all ranks. Throws std::system_error.
  static ShmSegment create(std::uint32_t ranks, std::uint32_t slot_bytes, std::uint64_t token,
                           std::vector<int> members = {});
  // Map the one that process `pid` holds as descriptor `fd`. Throws std::system_error, or std::runtime_error where what
  // is there is not the segment with this token.
  static ShmSegment open(int pid, int fd, std::uint64_t token);

  // As SharedMemory's.
  int fd() const { return memory_.fd(); }
  void close_fd() { memory_.close_fd(); }

  SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(memory_.base()); }
  RankBlock& rank(int rank) const { return blocks()[rank]; }
  // In order. What follows is for them alone.
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
