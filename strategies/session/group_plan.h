#pragma once
// What ranks must agree on before they form a group. Pure.
#include <optional>
#include <string>
#include <vector>

namespace dtrain {

// What each rank called, by rank, in words. Empty where all called the same; else the line that says who did not.
std::string disagreement(const std::vector<std::string>& calls);

// "new_group([0, 2])".
std::string call_of(const std::vector<int>& ranks);
// Why these ranks of a world of this size are no group; empty where they are one.
std::string why_no_group(const std::vector<int>& ranks, int world_size);

// A colour in words for the other ranks, and back. None: in no group.
std::string text_of(const std::optional<int>& colour);
// The ranks whose colour is that of `rank`, in order; none where it has none.
std::vector<int> same_colour(const std::vector<std::string>& colours, int rank);

// The GPU of a rank that sees this many, at least one. A single one is for whoever sees it. Throws ConfigError.
int gpu_for(int local_rank, int gpus);

}  // namespace dtrain
