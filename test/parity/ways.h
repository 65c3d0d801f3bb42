#pragma once
// Strategies that tests go through.
#include <vector>

#include "dtrain/strategy.h"

namespace dtrain::test {

struct Way {
  const char* name;
  Strategy strategy;
};

// Each strategy once, with buckets that are small, and fsdp with and without copies; then `more`.
inline std::vector<Way> each_strategy(const std::vector<Way>& more) {
  using Kind = StrategyKind;
  std::vector<Way> ways = {{"ddp", {.kind = Kind::ddp}},
                           {"zero1", {.kind = Kind::zero1, .bucket_bytes = 500}},
                           {"zero2", {.kind = Kind::zero2, .bucket_bytes = 500}},
                           {"fsdp", {.kind = Kind::fsdp}},
                           {"fsdp, copies", {.kind = Kind::fsdp, .one_copy = false}}};
  ways.insert(ways.end(), more.begin(), more.end());
  return ways;
}

}  // namespace dtrain::test
