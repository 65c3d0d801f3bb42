#pragma once
// What each rank tells of the parts of tensors that it has written or read: their ranges and sums. Of all parts
// together, the tensors' own sums. Pure.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "strategies/checkpoint/layout_plan.h"

namespace dtrain::checkpoint {

struct PartSum {
  std::size_t tensor = 0;              // its place in the list
  std::uint64_t begin = 0, count = 0;  // elements
  std::uint32_t sum = 0;
};

std::string sums_text(const std::vector<PartSum>& sums);
// Throws Refused.
std::vector<PartSum> parse_sums(std::string_view text);

struct WholeSum {
  bool covered = false;  // each element is in a part, and no parts overlap but equal ones
  std::uint32_t sum = 0;
  std::string why;  // if it is not covered: "rank 1 and rank 2 both have element 5"
};

// For each tensor of the list. Parts of several ranks may be equal: range and sum.
std::vector<WholeSum> whole_sums(const std::vector<TensorSpec>& tensors,
                                 const std::vector<std::vector<PartSum>>& of_ranks);

}  // namespace dtrain::checkpoint
