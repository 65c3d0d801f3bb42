#pragma once
// Memory that ranks of one host share beside a group's segment: tensors in it are reduced where they lie, with no copy
// in or out. Each process has one arena, for all its groups; another rank maps the arena when a collective first meets
// a tensor in it. An arena is a memfd, as the segment is (shm_segment.h), as large as the machine's memory, at most
// 64 GiB: a page costs memory once it is touched, and is given back when the tensors in it are freed.
//
// A child forked from the process has a copy of what the arena held at the fork, as it has of all other memory
// (arena_copy.h). It has nothing of the others' arenas.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "strategies/comm/base/shared_memory.h"
#include "strategies/comm/memory/arena_copy.h"
#include "strategies/comm/memory/arena_key.h"
#include "strategies/comm/memory/arena_plan.h"

namespace dtrain {

// A mapping of an arena: the process's own, or another's.
class ArenaMemory {
 public:
  // Both throw std::system_error; open() throws std::runtime_error if the arena with this key is not there.
  static ArenaMemory create();
  static ArenaMemory open(const ArenaKey& key);

  std::byte* base() const { return memory_.base(); }
  const ArenaKey& key() const { return key_; }
  // Give the pages of this range back: nothing in them is used any more.
  void forget(std::size_t at, std::size_t bytes) const noexcept;
  SharedMemory& memory() { return memory_; }

 private:
  ArenaKey key_;
  SharedMemory memory_;
};

// The arena of this process. Any thread.
class Arena {
 public:
  // The first call makes the arena, which is never destroyed: tensors may outlive everything else. Null if the arena
  // cannot be made; one line on stderr says why. A forked child makes an arena of its own; in its parent's it can only
  // free tensors.
  static Arena* own();
  // The arena that own() has made; null if own() was not called yet.
  static Arena* known() { return the_own_.load(std::memory_order_acquire); }
  // Give back the copy for forked children: ranks are about to write into the arena, so the copy becomes out of date.
  static void drop_copy() {
    Arena* const arena = known();
    if (arena != nullptr && arena->copied_.load(std::memory_order_relaxed)) arena->forget_copy();
  }

  // Null if there is no room, or the arena is a parent's. Pages begin as zeros.
  std::byte* allocate(std::size_t bytes);
  void free(std::byte* data);
  // Never give this tensor's memory out again: after a failure, other ranks may still write into it.
  void keep(const std::byte* data);

  bool holds(const std::byte* data, std::size_t bytes) const {
    return data >= memory_.base() && data + bytes <= memory_.base() + memory_.key().bytes;
  }
  std::uint64_t place(const std::byte* data) const { return static_cast<std::uint64_t>(data - memory_.base()); }
  const ArenaKey& key() const { return memory_.key(); }

 private:
  explicit Arena(ArenaMemory memory);
  static Arena* make();
  static void before_fork();
  static void after_fork();
  static void in_child();
  void forget_copy();

  static std::atomic<Arena*> the_own_;
  ArenaMemory memory_;
  std::mutex mutex_;  // guards the members that follow
  ArenaPlan plan_;
  ArenaCopy copy_;
  std::atomic<bool> copied_{false};
};

}  // namespace dtrain
