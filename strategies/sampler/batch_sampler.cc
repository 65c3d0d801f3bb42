// Draws and splits batches; see include/dtrain/batch_sampler.h. The generator and the shuffle are spelled out here
// because those of the standard library may differ between implementations. Pure.
#include "dtrain/batch_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "dtrain/worker_env.h"
#include "strategies/extra/saved_state.h"

namespace dtrain {
namespace {

// SplitMix64: 64 random bits a step from a counter.
class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }

  // Uniform in [0, bound), without modulo bias.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t unbiased = UINT64_MAX - UINT64_MAX % bound;
    std::uint64_t value = next();
    while (value >= unbiased) value = next();
    return value % bound;
  }

 private:
  std::uint64_t state_;
};

void check_options(const BatchSamplerOptions& options) {
  if (options.dataset_size < 1) throw ConfigError("dtrain: BatchSampler: dataset_size must be at least 1");
  if (options.global_batch_size < 1) throw ConfigError("dtrain: BatchSampler: global_batch_size must be at least 1");
  if (options.world_size < 1 || options.rank < 0 || options.rank >= options.world_size) {
    throw ConfigError(
        fmt::format("dtrain: BatchSampler: rank {} of {} does not exist", options.rank, options.world_size));
  }
}

void require_saved_as(SavedState& state, const char* key, const StateJson& own) {
  const StateJson& saved = state.value(key);
  if (saved == own) return;
  throw ConfigError(fmt::format(
      "dtrain: BatchSampler: the checkpoint was saved with {} {}, and this sampler has {}; with another order "
      "of the samples it cannot go on",
      key, saved.dump(), own.dump()));
}

}  // namespace

BatchSampler::BatchSampler(const BatchSamplerOptions& options) : options_(options) {
  check_options(options_);
  set_epoch(0);
}

void BatchSampler::set_epoch(std::uint64_t epoch) {
  epoch_ = epoch;
  position_ = 0;
  order_.resize(static_cast<std::size_t>(options_.dataset_size));
  std::iota(order_.begin(), order_.end(), std::int64_t{0});
  if (!options_.shuffle) return;
  SplitMix64 random(SplitMix64(options_.seed).next() + epoch);
  for (std::size_t i = order_.size() - 1; i > 0; --i) std::swap(order_[i], order_[random.below(i + 1)]);
}

std::int64_t BatchSampler::batches() const {
  const std::int64_t full = options_.dataset_size / options_.global_batch_size;
  const bool partial = options_.dataset_size % options_.global_batch_size != 0;
  return full + (partial && !options_.drop_last ? 1 : 0);
}

std::int64_t BatchSampler::global_size(std::int64_t batch) const {
  const std::int64_t begin = batch * options_.global_batch_size;
  return std::min(options_.global_batch_size, options_.dataset_size - begin);
}

std::vector<std::int64_t> BatchSampler::local_indices(std::int64_t batch) const {
  if (batch < 0 || batch >= batches()) {
    throw ConfigError(fmt::format("dtrain: BatchSampler: batch {} of {} does not exist", batch, batches()));
  }
  return share(batch * options_.global_batch_size, global_size(batch));
}

// This rank's part of `size` samples of the order.
std::vector<std::int64_t> BatchSampler::share(std::int64_t begin, std::int64_t size) const {
  const auto first = order_.begin() + begin + size * options_.rank / options_.world_size;
  const auto last = order_.begin() + begin + size * (options_.rank + 1) / options_.world_size;
  return {first, last};
}

std::optional<SampledBatch> BatchSampler::next() {
  const std::int64_t size = std::min(options_.global_batch_size, options_.dataset_size - position_);
  if (size == 0 || (options_.drop_last && size < options_.global_batch_size)) return std::nullopt;
  const std::int64_t begin = std::exchange(position_, position_ + size);
  return SampledBatch{share(begin, size), size};
}

std::string BatchSampler::save_into(const std::string& extra) const {
  return with_state("BatchSampler", extra, "sampler",
                    {{"epoch", epoch_},
                     {"position", position_},
                     {"dataset_size", options_.dataset_size},
                     {"seed", options_.seed},
                     {"shuffle", options_.shuffle}});
}

void BatchSampler::restore(const std::string& extra) {
  SavedState saved("BatchSampler", extra, "sampler");
  require_saved_as(saved, "dataset_size", options_.dataset_size);
  require_saved_as(saved, "seed", options_.seed);
  require_saved_as(saved, "shuffle", options_.shuffle);
  const std::uint64_t epoch = saved.whole("epoch", UINT64_MAX);
  const std::uint64_t position = saved.whole("position", static_cast<std::uint64_t>(options_.dataset_size));
  saved.finish();
  set_epoch(epoch);
  position_ = static_cast<std::int64_t>(position);
}

}  // namespace dtrain
