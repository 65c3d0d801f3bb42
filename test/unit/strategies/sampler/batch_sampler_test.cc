// The batches of an epoch: the same sets of samples for every world size, each sample once.
#include "dtrain/batch_sampler.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "dtrain/worker_env.h"
#include "test/support/catch.h"

using namespace dtrain;

namespace {

using Indices = std::vector<std::int64_t>;

// Global batch `batch` put together from the ranks' parts.
Indices global_batch(BatchSamplerOptions options, std::uint64_t epoch, std::int64_t batch) {
  Indices all;
  for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
    BatchSampler sampler(options);
    sampler.set_epoch(epoch);
    const Indices part = sampler.local_indices(batch);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

BatchSamplerOptions digits(int world_size) {
  return {.dataset_size = 1437, .global_batch_size = 32, .world_size = world_size, .seed = 7};
}

}  // namespace

TEST_CASE("global batches do not depend on the world size") {
  const int world_size = GENERATE(2, 3, 4, 7, 64);
  for (const std::int64_t batch : {0, 17, 44}) {
    for (const std::uint64_t epoch : {0, 5}) {
      CHECK(global_batch(digits(world_size), epoch, batch) == global_batch(digits(1), epoch, batch));
    }
  }
}

TEST_CASE("an epoch has every sample once, and the last batch is what remains") {
  const BatchSampler sampler(digits(1));
  REQUIRE(sampler.batches() == 45);
  CHECK(sampler.global_size(0) == 32);
  CHECK(sampler.global_size(44) == 1437 - 44 * 32);
  Indices seen;
  for (std::int64_t b = 0; b < sampler.batches(); ++b) {
    const Indices part = sampler.local_indices(b);
    CHECK(static_cast<std::int64_t>(part.size()) == sampler.global_size(b));
    seen.insert(seen.end(), part.begin(), part.end());
  }
  std::sort(seen.begin(), seen.end());
  Indices all(1437);
  std::iota(all.begin(), all.end(), 0);
  CHECK(seen == all);
}

TEST_CASE("shares differ by at most one sample") {
  const int world_size = GENERATE(2, 3, 5, 40);
  BatchSamplerOptions options = digits(world_size);
  for (const std::int64_t batch : {0, 44}) {
    std::size_t least = SIZE_MAX, most = 0;
    for (options.rank = 0; options.rank < world_size; ++options.rank) {
      const std::size_t size = BatchSampler(options).local_indices(batch).size();
      least = std::min(least, size);
      most = std::max(most, size);
    }
    CHECK(most - least <= 1);
  }
}

TEST_CASE("epochs and seeds give other orders, and the same ones the same order") {
  BatchSamplerOptions other = digits(1);
  other.seed = 8;
  CHECK(global_batch(digits(1), 0, 0) == global_batch(digits(1), 0, 0));
  CHECK(global_batch(digits(1), 0, 0) != global_batch(digits(1), 1, 0));
  CHECK(global_batch(digits(1), 0, 0) != global_batch(other, 0, 0));
}

TEST_CASE("the order of a seed is pinned: a run can be repeated with a later version") {
  CHECK(global_batch({.dataset_size = 8, .global_batch_size = 8, .seed = 1}, 0, 0) == Indices{0, 5, 2, 7, 3, 4, 1, 6});
}

TEST_CASE("without shuffling samples come as they lie, and drop_last leaves out the rest") {
  const BatchSampler sampler({.dataset_size = 10, .global_batch_size = 4, .shuffle = false, .drop_last = true});
  CHECK(sampler.batches() == 2);
  CHECK(sampler.local_indices(1) == Indices{4, 5, 6, 7});
  CHECK_THROWS_AS(sampler.local_indices(2), ConfigError);
}

TEST_CASE("impossible options are refused") {
  CHECK_THROWS_AS(BatchSampler({.dataset_size = 0, .global_batch_size = 1}), ConfigError);
  CHECK_THROWS_AS(BatchSampler({.dataset_size = 1, .global_batch_size = 0}), ConfigError);
  CHECK_THROWS_AS(BatchSampler({.dataset_size = 1, .global_batch_size = 1, .rank = 1}), ConfigError);
}
