#pragma once
// BatchSampler says which samples a rank trains on. Global batch b of an epoch has the same samples for every world
// size, so a run with 1, 2 or 4 ranks makes the same updates. Each rank takes a contiguous part of the batch. This
// header needs no torch.
//
// A run that goes on from a checkpoint sees exactly the samples that are left of its epoch, with any number of ranks
// and any size of the global batch:
//
//   if (const auto loaded = model.load(checkpoints, optimizer)) sampler.restore(loaded->extra);
//   for (; sampler.epoch() < epochs; sampler.set_epoch(sampler.epoch() + 1)) {
//     while (const auto batch = sampler.next()) {
//       train(batch->indices, batch->global_size);
//       if (...) model.save(checkpoints, step, optimizer, sampler.save_into());
//     }
//   }
#include <cstdint>
#include <optional>
#include <string>
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

// A global batch, as one rank has it.
struct SampledBatch {
  std::vector<std::int64_t> indices;  // the samples of this rank, in order
  std::int64_t global_size = 0;       // samples of all ranks together: divide by it for a mean over the batch
};

// No member is a collective. Several threads may call const members at the same time, but not during set_epoch().
class BatchSampler {
 public:
  // Throws ConfigError (worker_env.h) if an option is out of range.
  explicit BatchSampler(const BatchSamplerOptions& options);

  // Draw the order of this epoch, and begin with its first batch. The constructor does it for epoch 0.
  void set_epoch(std::uint64_t epoch);
  std::uint64_t epoch() const { return epoch_; }

  // The next global batch of the epoch; none at its end. All ranks call it equally often.
  std::optional<SampledBatch> next();
  // The samples that next() has given out in this epoch, to all ranks together.
  std::int64_t position() const { return position_; }

  // For a checkpoint: `extra`, a JSON object or empty, with the epoch and the position under the key "sampler". Throws
  // ConfigError if `extra` is something else. It is the same text on all ranks.
  std::string save_into(const std::string& extra = {}) const;
  // Goes on where save_into() was called. All ranks give the same text. Throws ConfigError if it is not from
  // save_into(), or if that sampler had another dataset_size, seed or shuffle: its order was another one.
  void restore(const std::string& extra);

  // The number of global batches in an epoch.
  std::int64_t batches() const;
  // The number of samples in global batch `batch`, of all ranks together. Divide by it for a mean over the batch.
  std::int64_t global_size(std::int64_t batch) const;
  // The samples of this rank in global batch `batch`, in order. The shares of the ranks differ by one sample at most.
  // If the last batch has fewer samples than there are ranks, some ranks have none. The shares of all ranks, in the
  // order of the ranks, are the global batch. Throws ConfigError if there is no such batch.
  std::vector<std::int64_t> local_indices(std::int64_t batch) const;

 private:
  std::vector<std::int64_t> share(std::int64_t begin, std::int64_t size) const;
  BatchSamplerOptions options_;
  std::vector<std::int64_t> order_;
  std::uint64_t epoch_ = 0;
  std::int64_t position_ = 0;
};

}  // namespace dtrain
