#pragma once
// The arguments of an all_to_all.
#include <cstddef>
#include <span>

namespace dtrain {

// What a rank has for each rank, and where it wants what it gets from each; indexed by rank.
using Inputs = std::span<const std::span<const std::byte>>;
using Outputs = std::span<const std::span<std::byte>>;

}  // namespace dtrain
