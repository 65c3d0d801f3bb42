#pragma once
// Numbers as people read them.
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace dtrain::launcher {

// "512 B", "1.2 GiB".
std::string readable_bytes(uint64_t bytes);
// "340 ms", "12.3 s", "5 min 12 s", "2 h 3 min".
std::string readable_duration(std::chrono::nanoseconds duration);
// "rank 4", "ranks 0-2,4". Takes them in any order.
std::string fold_ranks(std::vector<int> ranks);

}  // namespace dtrain::launcher
