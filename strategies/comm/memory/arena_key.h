#pragma once
// What a process needs to map the arena of another process (arena.h).
#include <cstdint>

namespace dtrain {

struct ArenaKey {
  std::int32_t pid = 0;  // the owner's number in /proc
  std::int32_t fd = -1;  // the owner's descriptor of the arena
  std::uint64_t token = 0;
  std::uint64_t bytes = 0;
};

}  // namespace dtrain
