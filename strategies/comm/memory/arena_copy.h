#pragma once
// A copy of what an arena holds, for the children that its process forks: in a child, a tensor in the arena has the
// values of the moment of the fork, as any other tensor has (docs/adr/0615). The copy is ordinary memory: all children
// share it with the process until one of them writes, and a second fork copies only pages that have changed since the
// first.
#include <cstddef>

#include "strategies/comm/base/shared_memory.h"

namespace dtrain {

// One thread at a time.
class ArenaCopy {
 public:
  // Before a fork: copy the first `bytes` bytes of the memory. False: there is no room for a copy, and none is left.
  bool update(const SharedMemory& memory, std::size_t bytes);
  // In the child: the copy takes the memory's place. Without a copy, a private view of the memory takes its place, in
  // which a page may yet change until the child writes to it. The memory's descriptor is closed.
  void take_place_of(SharedMemory& memory, std::size_t bytes);
  // In the process: give the copy back, as no fork is expected soon.
  void drop() noexcept;
  bool exists() const { return base_ != nullptr; }

 private:
  bool resize(std::size_t bytes);
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace dtrain
