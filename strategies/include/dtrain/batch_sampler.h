#pragma once
// BatchSampler says which samples a rank trains on. Global batch b of an epoch has the same samples for every world
// size, so a run with 1, 2 or 4 ranks makes the same updates. Each rank takes a contiguous part of the batch. This
// header needs no torch.
#include <cstdint>
#include <vector>

namespace dtrain {

struct BatchSamplerOptions {
  std::int64_t dataset_size = 0;       // number of samples, 1 or more
  std::int64_t global_batch_size = 0;  // samples of one update, of all ranks together, 1 or more
  int rank = 0;
  int world_size = 1;
  std::uint64_t seed = 0;  // must be the same on every rank
  bool shuffle = true;     // a new order in every epoch, drawn from seed and epoch; false: 0, 1, 2, ...
  bool drop_last = false;  // leave out the last batch if it is not full
};

// No member is a collective. Several threads may call const members at the same time, but not during set_epoch().
class BatchSampler {
 public:
  // Throws ConfigError (worker_env.h) if an option is out of range.
  explicit BatchSampler(const BatchSamplerOptions& options);

  // Draw the order of this epoch. The constructor draws that of epoch 0.
  void set_epoch(std::uint64_t epoch);

  // The number of global batches in an epoch.
  std::int64_t batches() const;
  // The number of samples in global batch `batch`, of all ranks together. Divide by it for a mean over the batch.
  std::int64_t global_size(std::int64_t batch) const;
  // The samples of this rank in global batch `batch`, in order. The shares of the ranks differ by one sample at most.
  // If the last batch has fewer samples than there are ranks, some ranks have none. The shares of all ranks, in the
  // order of the ranks, are the global batch. Throws ConfigError if there is no such batch.
  std::vector<std::int64_t> local_indices(std::int64_t batch) const;

 private:
  BatchSamplerOptions options_;
  std::vector<std::int64_t> order_;
};

}  // namespace dtrain
