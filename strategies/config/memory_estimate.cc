// Tested by test/unit/strategies/config/memory_estimate_test.cc.
#include "strategies/config/memory_estimate.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace dtrain::config {
namespace {

constexpr double kStateInFlight = 64 << 20;  // of a state on disk, in a step: StateFile::kBytesInFlight
constexpr int kRowsOnTheirWay = 2;           // one is filled by backward while the one before is reduced

// The sizes that count once small units belong to the rest.
struct Sizes {
  double all = 0, rest = 0, largest_unit = 0;
  std::size_t units = 0;
};

Sizes sizes_of(const ModelSize& model, std::int64_t unit_elements) {
  Sizes sizes{.rest = static_cast<double>(model.rest)};
  for (const std::int64_t unit : model.units) {
    const auto elements = static_cast<double>(unit);
    sizes.all += elements;
    if (unit < unit_elements) {
      sizes.rest += elements;
      continue;
    }
    ++sizes.units;
    sizes.largest_unit = std::max(sizes.largest_unit, elements);
  }
  sizes.all += static_cast<double>(model.rest);
  return sizes;
}

int bytes_of(Precision precision, int otherwise) {
  switch (precision) {
    case Precision::float32:
      return 4;
    case Precision::bfloat16:
    case Precision::float16:
      return 2;
    case Precision::same:
      break;
  }
  return otherwise;
}

// So many of the largest units, if there are so many.
double units(const Sizes& sizes, std::size_t count) {
  return static_cast<double>(std::min(count, sizes.units)) * sizes.largest_unit;
}

// The whole units of fsdp at one time, and what each rank keeps of the others. What belongs to no unit stays whole from
// forward to the end of backward.
double whole(const Sizes& sizes, const Strategy& strategy, int sharing, double element_bytes) {
  if (!strategy.reshard_after_forward) return sizes.all;
  const double runs = units(sizes, 1), more = units(sizes, 1 + static_cast<std::size_t>(strategy.prefetch)) - runs;
  const double ahead = std::min(more, static_cast<double>(strategy.prefetch_bytes) / element_bytes);
  // Shared by as many ranks as before it is no further copy.
  if (strategy.reshard_size > 0 && strategy.reshard_size < sharing)
    return sizes.rest + runs + ahead + (sizes.all - sizes.rest) / strategy.reshard_size;
  return sizes.rest + runs + ahead;
}

// The parameter that makes a bucket full may be the largest.
double bucket(const Strategy& strategy, const ModelSize& model, const TrainingSize& training) {
  const auto wanted = static_cast<double>(strategy.bucket_bytes) / training.parameter_bytes;
  return std::min(static_cast<double>(model.elements()), wanted + static_cast<double>(model.largest));
}

// With `deterministic` all gradients are there when backward ends: in a row for each level of the tree and the one that
// is filled. Then they are one row, and pieces of all ranks come beside it.
double live_in_order(double all_rows, double whole_bytes, double rest_bytes, int micro_batches) {
  const auto rows = static_cast<double>(std::bit_width(static_cast<unsigned>(std::max(1, micro_batches))));
  return std::max(whole_bytes + rows * all_rows, rest_bytes + 2 * all_rows);
}

RankMemory with_state_in_place(RankMemory memory, const Strategy& strategy) {
  if (strategy.state_folder.empty()) return memory;
  memory.on_disk = memory.optimizer;
  memory.optimizer = std::min(memory.optimizer, kStateInFlight);
  return memory;
}

}  // namespace

std::int64_t ModelSize::elements() const { return std::accumulate(units.begin(), units.end(), rest); }

RankMemory memory_of(const Strategy& strategy, const ModelSize& model, const TrainingSize& training) {
  const Sizes sizes = sizes_of(model, strategy.unit_elements);
  const double own = training.parameter_bytes;
  const double state = static_cast<double>(training.state_numbers) * training.state_bytes;
  if (strategy.kind == StrategyKind::ddp)
    return with_state_in_place(
        {.parameters = sizes.all * own, .gradients = sizes.all * own, .optimizer = sizes.all * state}, strategy);

  const int sharing = strategy.shard_size > 0 ? std::min(strategy.shard_size, training.ranks) : training.ranks;
  const double mine = sizes.all / sharing;
  const double compute = bytes_of(strategy.param, training.parameter_bytes);
  const double reduce = bytes_of(strategy.reduce, static_cast<int>(compute));
  // What is optimized is a part of what computes, if both have one type.
  const double optimized = strategy.param == Precision::same || compute == own ? 0 : mine * own;
  // A narrow gradient stays so. But a GradScaler, which float16 needs, reads it in the type of the parameters.
  const bool scaled = training.loss_scale ||
                      (strategy.reduce == Precision::same ? strategy.param : strategy.reduce) == Precision::float16;
  const double kept = scaled ? own : std::min(own, reduce);
  double whole_bytes = 0, rest_bytes = 0;
  RankMemory memory{.gradients = mine * kept, .optimizer = mine * state};
  switch (strategy.kind) {
    case StrategyKind::ddp:
      break;
    case StrategyKind::zero1:
      memory.parameters = sizes.all * compute + optimized;
      // The sum over the ranks lies in the row of all gradients.
      if (!strategy.deterministic) memory.gradients = sizes.all * reduce + (kept == reduce ? 0 : mine * kept);
      break;
    case StrategyKind::zero2:
      memory.parameters = sizes.all * compute + optimized;
      memory.live = std::min(kRowsOnTheirWay * bucket(strategy, model, training), sizes.all) * reduce;
      break;
    case StrategyKind::fsdp: {
      // On several hosts only if it is asked for.
      const bool one_copy = training.host_ranks > 0 && strategy.one_copy.value_or(sharing <= training.host_ranks);
      const bool stays = one_copy || sharing == 1;
      const int of_a_copy = one_copy ? std::min(sharing, training.host_ranks) : 1;
      memory.parameters = stays ? sizes.all / of_a_copy * compute + optimized : mine * own;
      whole_bytes = stays ? 0 : whole(sizes, strategy, sharing, compute) * compute;
      rest_bytes = stays ? 0 : sizes.rest * compute;
      memory.live = whole_bytes + (sizes.rest + units(sizes, kRowsOnTheirWay)) * reduce;
      break;
    }
  }
  if (strategy.deterministic)
    memory.live = live_in_order(sizes.all * reduce, whole_bytes, rest_bytes, training.micro_batches);
  return with_state_in_place(memory, strategy);
}

}  // namespace dtrain::config
