#pragma once
// Which samples a rank trains on. Global batch b of an epoch is the same set of samples for every world size, so a run
// with 1, 2 or 4 ranks makes the same updates; each rank takes its contiguous part of the batch. Needs no torch.
#include <cstdint>
#include <vector>

namespace dtrain {

struct BatchSamplerOptions {
  std::int64_t dataset_size = 0;       // samples, >= 1
  std::int64_t global_batch_size = 0;  // samples per update over all ranks, >= 1
  int rank = 0;
  int world_size = 1;
  std::uint64_t seed = 0;  // the same on every rank
  bool shuffle = true;     // a new order every epoch, drawn from seed and epoch; false: 0, 1, 2, ...
  bool drop_last = false;  // leave out a last batch that is not full
};

// No collective. The const members may be called from several threads, beside no set_epoch.
class BatchSampler {
 public:
  // Throws ConfigError (worker_env.h) where an option is out of range.
  explicit BatchSampler(const BatchSamplerOptions& options);

  // Draw the order of this epoch. Starts at epoch 0.
  void set_epoch(std::uint64_t epoch);

  // Global batches in an epoch.
  std::int64_t batches() const;
  // Samples of global batch `batch` over all ranks: what a mean over the batch divides by.
  std::int64_t global_size(std::int64_t batch) const;
  // This rank's samples of global batch `batch`, in order. Shares differ by at most one sample; a last batch with fewer
  // samples than ranks leaves some ranks with none. The ranks' shares in rank order are the global batch.
  std::vector<std::int64_t> local_indices(std::int64_t batch) const;

 private:
  BatchSamplerOptions options_;
  std::vector<std::int64_t> order_;
};

}  // namespace dtrain
