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

namespace {

// The batches that the ranks get from next() until `most` of them or the end of the epoch, each put together.
std::vector<Indices> next_batches(std::vector<BatchSampler>& ranks, std::int64_t most) {
  std::vector<Indices> batches;
  while (static_cast<std::int64_t>(batches.size()) < most) {
    Indices all;
    std::int64_t size = 0, given = 0;
    for (BatchSampler& rank : ranks) {
      const auto batch = rank.next();
      if (!batch) continue;
      ++given;
      size = batch->global_size;
      all.insert(all.end(), batch->indices.begin(), batch->indices.end());
    }
    if (given == 0) break;
    REQUIRE(given == static_cast<std::int64_t>(ranks.size()));
    REQUIRE(size == static_cast<std::int64_t>(all.size()));
    batches.push_back(all);
  }
  return batches;
}

std::vector<BatchSampler> samplers(BatchSamplerOptions options, int world_size) {
  std::vector<BatchSampler> ranks;
  options.world_size = world_size;
  for (options.rank = 0; options.rank < world_size; ++options.rank) ranks.emplace_back(options);
  return ranks;
}

std::vector<BatchSampler> restored(const BatchSamplerOptions& options, int world_size, const std::string& extra) {
  std::vector<BatchSampler> ranks = samplers(options, world_size);
  for (BatchSampler& rank : ranks) rank.restore(extra);
  return ranks;
}

Indices joined(const std::vector<Indices>& batches) {
  Indices all;
  for (const Indices& each : batches) all.insert(all.end(), each.begin(), each.end());
  return all;
}

}  // namespace

TEST_CASE("next() gives the batches that local_indices() has") {
  std::vector<BatchSampler> ranks = samplers(digits(3), 3);
  for (BatchSampler& rank : ranks) rank.set_epoch(2);
  const std::vector<Indices> batches = next_batches(ranks, 100);
  REQUIRE(batches.size() == 45);
  for (const std::int64_t b : {0, 17, 44}) CHECK(batches[static_cast<std::size_t>(b)] == global_batch(digits(3), 2, b));
  CHECK(ranks[0].position() == 1437);
  CHECK_FALSE(ranks[0].next());
  ranks[0].set_epoch(3);
  CHECK(ranks[0].position() == 0);
}

TEST_CASE("a run that goes on sees what is left of the epoch, with any number of ranks and any size of a batch") {
  std::uint64_t drawn = 1;
  const auto random = [&](std::int64_t below) {
    drawn = drawn * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::int64_t>((drawn >> 33) % static_cast<std::uint64_t>(below));
  };
  for (int trial = 0; trial < 40; ++trial) {
    const std::int64_t size = 1 + random(200);
    BatchSamplerOptions options{.dataset_size = size,
                                .global_batch_size = 1 + random(20),
                                .seed = static_cast<std::uint64_t>(random(5)),
                                .shuffle = random(4) != 0};
    const auto epoch = static_cast<std::uint64_t>(random(3));
    const std::int64_t stop = random(size / options.global_batch_size + 2);
    for (int before = 1; before <= 4; ++before) {
      std::vector<BatchSampler> first = samplers(options, before);
      for (BatchSampler& rank : first) rank.set_epoch(epoch);
      const std::vector<Indices> seen = next_batches(first, stop);
      const std::string extra = first[0].save_into(R"({"note": 1})");
      for (const BatchSampler& rank : first) REQUIRE(rank.save_into(R"({"note": 1})") == extra);
      const std::vector<Indices> undisturbed = next_batches(first, size + 1);
      for (int after = 1; after <= 4; ++after) {
        INFO(size << " samples, batches of " << options.global_batch_size << ", stopped after " << seen.size() << ", "
                  << before << " -> " << after << " ranks");
        std::vector<BatchSampler> same = restored(options, after, extra);
        CHECK(same[0].epoch() == epoch);
        CHECK(next_batches(same, size + 1) == undisturbed);
        BatchSamplerOptions other = options;
        other.global_batch_size = 1 + random(20);
        std::vector<BatchSampler> changed = restored(other, after, extra);
        Indices all = joined(seen);
        const Indices rest = joined(next_batches(changed, size + 1));
        CHECK(rest == joined(undisturbed));
        all.insert(all.end(), rest.begin(), rest.end());
        std::sort(all.begin(), all.end());
        Indices every(static_cast<std::size_t>(size));
        std::iota(every.begin(), every.end(), 0);
        CHECK(all == every);
      }
    }
  }
}

TEST_CASE("the place of a sampler in a checkpoint is pinned") {
  BatchSampler sampler(
      {.dataset_size = 10, .global_batch_size = 4, .seed = 18446744073709551615ULL, .drop_last = true});
  sampler.set_epoch(5);
  sampler.next();
  const std::string saved = sampler.save_into(R"({"step": 3, "sampler": "old"})");
  CHECK(
      saved ==
      R"({"sampler":{"dataset_size":10,"epoch":5,"position":4,"seed":18446744073709551615,"shuffle":true},"step":3})");
  BatchSampler other({.dataset_size = 10, .global_batch_size = 4, .seed = 18446744073709551615ULL, .drop_last = true});
  other.restore(saved);
  CHECK(other.save_into() == sampler.save_into());
  CHECK(other.next());
  CHECK_FALSE(other.next());  // two samples are left out
}

TEST_CASE("a checkpoint of another order, or none of a sampler, is refused") {
  BatchSampler sampler({.dataset_size = 10, .global_batch_size = 4, .seed = 1});
  const std::string saved = sampler.save_into();
  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(BatchSampler({.dataset_size = 11, .global_batch_size = 4, .seed = 1}).restore(saved),
                    Contains("dataset_size 10, and this sampler has 11"));
  CHECK_THROWS_WITH(BatchSampler({.dataset_size = 10, .global_batch_size = 4, .seed = 2}).restore(saved),
                    Contains("seed 1, and this sampler has 2"));
  CHECK_THROWS_WITH(
      BatchSampler({.dataset_size = 10, .global_batch_size = 4, .seed = 1, .shuffle = false}).restore(saved),
      Contains("shuffle true"));
  for (const char* text : {"", "{", "[]", "7"})
    CHECK_THROWS_WITH(sampler.restore(text), Contains("BatchSampler: the checkpoint's extra is no JSON object"));
  for (const char* text : {R"({"sampler": 1})", R"({"step": 1})"})
    CHECK_THROWS_WITH(sampler.restore(text), Contains("no object \"sampler\""));
  const auto with = [](const std::string& epoch, const std::string& position) {
    return R"({"sampler":{"dataset_size":10,"seed":1,"shuffle":true,"epoch":)" + epoch + R"(,"position":)" + position +
           "}}";
  };
  sampler.restore(with("2", "10"));
  CHECK_FALSE(sampler.next());
  for (const auto& [epoch, position] :
       {std::pair("2", "11"), {"-1", "0"}, {"2", "-1"}, {"2", "1.5"}, {"null", "1"}, {"\"a\"", "1"}})
    CHECK_THROWS_WITH(sampler.restore(with(epoch, position)), Contains("a whole number from 0 to "));
  CHECK(sampler.epoch() == 2);
  CHECK_THROWS_AS(sampler.save_into("[1]"), ConfigError);
  CHECK_THROWS_AS(sampler.save_into("{"), ConfigError);
}
