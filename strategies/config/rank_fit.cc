// Tested by test/unit/cli/estimate/estimate_test.cc and test/parity/parallel_use_test.cc.
#include "strategies/config/rank_fit.h"

#include <fmt/format.h>

#include <bit>

namespace dtrain::config {

std::optional<std::string> why_unfit(const Strategy& strategy, int ranks) {
  const auto divides = [](int size, int all) { return size == 0 || all % size == 0; };
  if (!divides(strategy.shard_size, ranks))
    return fmt::format("shard_size {} does not divide the {} ranks; each set of ranks that shares a model has so many",
                       strategy.shard_size, ranks);
  const int sharing = strategy.shard_size > 0 ? strategy.shard_size : ranks;
  if (!divides(strategy.reshard_size, sharing))
    return fmt::format("reshard_after_forward {} does not divide the {} ranks that share the model",
                       strategy.reshard_size, sharing);
  if (strategy.deterministic && !std::has_single_bit(static_cast<unsigned>(ranks)))
    return fmt::format("deterministic needs 1, 2, 4, 8, ... ranks, and there are {}: it adds up in a binary tree",
                       ranks);
  return std::nullopt;
}

}  // namespace dtrain::config
