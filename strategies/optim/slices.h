#pragma once
// A slice: shards of one run that lie side by side and are updated with the same options, after the same number of
// updates, and their state.
#include "strategies/optim/elementwise.h"

namespace dtrain {

struct ShardPlace {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;  // in the parameter
  std::int64_t count = 0;
  std::int64_t step = 0;       // updates so far
  std::int64_t parameter = 0;  // its number among the names, in the order in which they come first
};

struct Slice {
  std::size_t run = 0;
  std::int64_t begin = 0;  // in the run
  std::int64_t count = 0;
  std::size_t group = 0;   // of ShardedOptimizerOptions; their number if there is none
  bool is_matrix = false;  // Muon updates it
  std::vector<ShardPlace> shards{};
  at::Tensor values{};
  std::vector<at::Tensor> states{};  // of as many elements
  at::Tensor step{};                 // on the device, for the kernels

  std::int64_t updates() const { return shards.front().step; }
};

// The slices of all runs, with a state of `names_of(slice)`, and the number of different names.
std::vector<Slice> slices_of(const ShardedOptimizerOptions& options, const std::vector<ShardRun>& runs,
                             std::int64_t& parameters);

// The names of a slice's state.
std::vector<std::string> state_names_of(const OptimizerOptions& algorithm, bool is_matrix);

// What updates the elements of shards that need not be whole; none for LAMB.
std::optional<Elementwise> elementwise_of(const OptimizerOptions& algorithm);

// Divides slices whose shards no longer have the same number of updates. The state stays where it is.
std::vector<Slice> divided_by_step(const std::vector<Slice>& slices);

// A number of a parameter's name that is the same in every process.
std::uint64_t hash_of_name(const std::string& name);

}  // namespace dtrain
