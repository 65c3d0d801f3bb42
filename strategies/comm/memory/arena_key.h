#pragma once
// What a process needs to map another one's arena (arena.h).
#include <cstdint>

namespace dtrain {

struct ArenaKey {
  std::int32_t pid = 0;  // of its process, in /proc
  std::int32_t fd = -1;  // there
  std::uint64_t token = 0;
  std::uint64_t bytes = 0;
};

}  // namespace dtrain
