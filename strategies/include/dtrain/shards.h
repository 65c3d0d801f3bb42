#pragma once
// The part of a model that this rank updates.
#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace dtrain {

// A rank's part of one parameter: the elements [begin, begin + values.numel()) of it, in row-major order.
struct Shard {
  std::string name;                 // as in named_parameters()
  std::vector<std::int64_t> shape;  // of the whole parameter
  std::int64_t begin = 0;           // the first element, counted in the whole parameter
  at::Tensor values;                // [elements of the part]; what the optimizer updates in place
};

// Shards that lie side by side in memory, in order and without gaps. One call can update them all.
struct ShardRun {
  at::Tensor values;  // [elements of all parts]
  std::vector<Shard> shards;
};

}  // namespace dtrain
