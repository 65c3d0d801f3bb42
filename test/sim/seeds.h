#pragma once
// Which histories a simulator runs: DTRAIN_SIM_SEED=n replays one, DTRAIN_SIM_COUNT=n runs so many.
#include <cstdint>
#include <cstdlib>

namespace dtrain::sim {

struct Seeds {
  std::uint64_t first = 1, count = 0;
};

inline Seeds seeds(std::uint64_t usual) {
  const char* one = std::getenv("DTRAIN_SIM_SEED");
  const char* many = std::getenv("DTRAIN_SIM_COUNT");
  Seeds seeds{1, usual};
  if (one != nullptr) seeds = {std::strtoull(one, nullptr, 10), 1};
  if (many != nullptr) seeds.count = std::strtoull(many, nullptr, 10);
  return seeds;
}

}  // namespace dtrain::sim
