#pragma once
// Parameters, cut into the shards of so many ranks as a flat buffer is.
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

#include "dtrain/optimizer.h"

namespace dtrain::test {

struct Named {
  std::string name;
  std::vector<std::int64_t> shape;
};

inline const std::vector<Named>& small_model() {
  static const std::vector<Named> model = {{"embedding.weight", {9, 7}},
                                           {"norm.bias", {33}},
                                           {"linear.weight", {70, 41}},
                                           {"linear.bias", {70}},
                                           {"scale", {}}};
  return model;
}

inline std::int64_t size_of(const Named& named) {
  std::int64_t size = 1;
  for (const auto dim : named.shape) size *= dim;
  return size;
}

inline std::int64_t size_of(const std::vector<Named>& model) {
  std::int64_t size = 0;
  for (const Named& named : model) size += size_of(named);
  return size;
}

inline at::Tensor random_flat(std::int64_t size, int seed, at::ScalarType type = at::kFloat) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(seed));
  return at::randn({size}, generator, at::kFloat).to(type);
}

// The elements [begin, end) of the flat model, as one run of shards. Parameters without an element in it have an empty
// shard.
inline ShardRun run_of(const std::vector<Named>& model, const at::Tensor& flat, std::int64_t begin, std::int64_t end) {
  ShardRun run{flat.slice(0, begin, end).clone(), {}};
  std::int64_t at = 0;
  for (const Named& named : model) {
    const auto first = std::clamp(begin, at, at + size_of(named)), last = std::clamp(end, at, at + size_of(named));
    run.shards.push_back({named.name, named.shape, first - at, run.values.narrow(0, 0, 0)});
    if (last > first) run.shards.back().values = run.values.slice(0, first - begin, last - begin);
    at += size_of(named);
  }
  return run;
}

inline at::Tensor gradient_of_step(std::int64_t size, int step) { return random_flat(size, 100 + step); }

// The flat model after `steps` steps on `ranks` ranks that each have a part of it, with an optimizer each.
inline at::Tensor trained(const ShardedOptimizerOptions& options, const std::vector<Named>& model, int ranks, int steps,
                          at::ScalarType type = at::kFloat) {
  const auto size = size_of(model);
  const auto flat = random_flat(size, 1, type);
  std::vector<at::Tensor> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto begin = size * rank / ranks, end = size * (rank + 1) / ranks;
    const ShardRun run = run_of(model, flat, begin, end);
    ShardedOptimizer optimizer(options, {run});
    for (int step = 0; step < steps; ++step)
      optimizer.step({gradient_of_step(size, step).slice(0, begin, end).contiguous()});
    parts.push_back(run.values);
  }
  return at::cat(parts);
}

}  // namespace dtrain::test
