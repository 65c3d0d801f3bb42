#pragma once
// Whether a strategy fits a number of ranks: Parallel asks, and the command line before anything runs. Pure.
#include <optional>
#include <span>
#include <string>

#include "dtrain/strategy.h"

namespace dtrain::config {

// Why the strategy cannot be carried out by so many ranks, without "dtrain: strategy: " before it. Nothing: it can.
std::optional<std::string> why_unfit(const Strategy& strategy, int ranks);

// `nodes`: a number of the node of each rank. How many ranks of each set, of `set` ranks one after the other, are on a
// node, if it is the same number on all nodes and they are one after the other; else 0.
int ranks_of_a_node(std::span<const int> nodes, int set);

}  // namespace dtrain::config
