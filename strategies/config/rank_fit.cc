// Tested by test/unit/cli/estimate/estimate_test.cc and test/parity/parallel_use_test.cc.
#include "strategies/config/rank_fit.h"

#include <fmt/format.h>

#include <algorithm>
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

int ranks_of_a_node(std::span<const int> nodes, int set) {
  const auto all = static_cast<int>(nodes.size());
  const auto node_of = [&](int rank) { return nodes[static_cast<std::size_t>(rank)]; };
  int each = 0;
  while (each < std::min(set, all) && node_of(each) == node_of(0)) ++each;
  if (each == 0 || set % each != 0 || all % set != 0) return 0;
  for (int rank = 1; rank < all; ++rank) {
    const bool begins = rank % each == 0;
    if (!begins && node_of(rank) != node_of(rank - 1)) return 0;
    // Sets may lie on one node.
    if (begins && rank % set != 0 && node_of(rank) == node_of(rank - 1)) return 0;
  }
  return each;
}

}  // namespace dtrain::config
