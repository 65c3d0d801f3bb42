#pragma once
// A slice: shards of one run that lie side by side and are updated with the same options, after the same number of
// updates, and their state.
#include "strategies/optim/elementwise.h"
#include "strategies/optim/state_file.h"

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
  std::size_t region = 0;            // of a state on disk, and where the slice begins in it
  std::int64_t region_begin = 0;

  std::int64_t updates() const { return shards.front().step; }
};

// The slices of all runs, without their state, and the number of different names.
std::vector<Slice> slices_of(const ShardedOptimizerOptions& options, const std::vector<ShardRun>& runs,
                             std::int64_t& parameters);

// A state of state_names_of(...) for each slice, in memory.
void add_state(std::vector<Slice>& slices, const ShardedOptimizerOptions& options);

// A part of a slice, and its state where an update can read and write it.
struct Stretch {
  const Slice* slice = nullptr;
  std::int64_t begin = 0;  // in the slice
  std::int64_t count = 0;
  std::vector<at::Tensor> states{};
};

// The slices' states in a file of options.state_folder: a region for each slice.
class StateOnDisk {
 public:
  // Throws ConfigError, as StateFile::make() does, or if a slice is not on a CPU.
  StateOnDisk(std::vector<Slice>& slices, const ShardedOptimizerOptions& options);

  // Brings the state of these slices to memory, part by part, and calls act() with each part. If `writes`, what act()
  // did to it goes back. `slices`: some of those of the constructor, or what divided_by_step() made of them, in order;
  // of a region all slices or none.
  using Act = std::function<void(const std::vector<Stretch>& stretches)>;
  void walk(const std::vector<Slice*>& slices, bool writes, const Act& act);

 private:
  std::vector<StateRegion> regions_;
  std::shared_ptr<StateFile> file_;
};

// The names of a slice's state.
std::vector<std::string> state_names_of(const OptimizerOptions& algorithm, bool is_matrix);

// What updates the elements of shards that need not be whole; none for LAMB.
std::optional<Elementwise> elementwise_of(const OptimizerOptions& algorithm);

// Divides slices whose shards no longer have the same number of updates. The state stays where it is.
std::vector<Slice> divided_by_step(const std::vector<Slice>& slices);

// A number of a parameter's name that is the same in every process.
std::uint64_t hash_of_name(const std::string& name);

}  // namespace dtrain
