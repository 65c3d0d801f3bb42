#pragma once
// Whether a strategy fits a number of ranks: Parallel asks, and the command line before anything runs. Pure.
#include <optional>
#include <string>

#include "dtrain/strategy.h"

namespace dtrain::config {

// Why the strategy cannot be carried out by so many ranks, without "dtrain: strategy: " before it. Nothing: it can.
std::optional<std::string> why_unfit(const Strategy& strategy, int ranks);

}  // namespace dtrain::config
