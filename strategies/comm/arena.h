#pragma once
// Memory that ranks of one host share beside a group's segment: what lies there is reduced where it lies, with no copy
// in or out. Each process has one such arena, for all its groups; others map it when they first meet something of it in
// a collective. A memfd as the segment (shm_segment.h), as large as the machine's memory, at most 64 GiB: a page costs
// memory once it is touched, and is given back when what lay there is freed.
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "strategies/comm/arena_key.h"
#include "strategies/comm/arena_plan.h"
#include "strategies/comm/shared_memory.h"

namespace dtrain {

// A mapping of an arena: the process's own, or another's.
class ArenaMemory {
 public:
  // Throw std::system_error, or std::runtime_error where there is no such arena.
  static ArenaMemory create();
  static ArenaMemory open(const ArenaKey& key);

  std::byte* base() const { return memory_.base(); }
  const ArenaKey& key() const { return key_; }
  // The pages of this range hold nothing any more.
  void forget(std::size_t at, std::size_t bytes) const noexcept;

 private:
  ArenaKey key_;
  SharedMemory memory_;
};

// This process's. Any thread.
class Arena {
 public:
  // Made when first asked for, and never destroyed: tensors may outlive all else. Null where it cannot be made, which
  // one line on stderr says.
  static Arena* own();
  // That of own(), if anybody has asked.
  static Arena* known();

  // Null where there is no room, and in a forked child, whose memory would be the parent's. Pages begin as zeros.
  std::byte* allocate(std::size_t bytes);
  void free(std::byte* data);
  // Something went wrong while others may have been writing there: it is never given out again.
  void keep(const std::byte* data);

  bool holds(const std::byte* data, std::size_t bytes) const {
    return data >= memory_.base() && data + bytes <= memory_.base() + memory_.key().bytes;
  }
  std::uint64_t place(const std::byte* data) const { return static_cast<std::uint64_t>(data - memory_.base()); }
  const ArenaKey& key() const { return memory_.key(); }

 private:
  explicit Arena(ArenaMemory memory);
  const int process_;
  ArenaMemory memory_;
  std::mutex mutex_;  // of the plan
  ArenaPlan plan_;
};

}  // namespace dtrain
