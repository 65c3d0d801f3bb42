// The memory of a rank by strategy: the formulas of the field, and what dtrain adds to them.
#include "strategies/config/memory_estimate.h"

#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::config;

namespace {

// 32 units and an embedding: 100 million parameters.
ModelSize model() {
  return {.units = std::vector<std::int64_t>(32, 3'000'000), .rest = 4'000'000, .largest = 4'000'000};
}

constexpr double kAll = 1e8;
constexpr TrainingSize kEight{.ranks = 8};
constexpr Strategy kMixed{.param = Precision::bfloat16};

Strategy mixed(StrategyKind kind) {
  Strategy strategy = kMixed;
  strategy.kind = kind;
  return strategy;
}

}  // namespace

TEST_CASE("memory: in float32 with Adam, 16 bytes for a parameter are divided more and more") {
  REQUIRE(model().elements() == 100'000'000);
  const auto kept = [](StrategyKind kind) {
    const RankMemory memory = memory_of({.kind = kind}, model(), kEight);
    return memory.total() - memory.live;
  };
  CHECK(kept(StrategyKind::ddp) == 16 * kAll);
  CHECK(kept(StrategyKind::zero1) == 8 * kAll + 8 * kAll / 8);
  CHECK(kept(StrategyKind::zero2) == 4 * kAll + 12 * kAll / 8);
  CHECK(kept(StrategyKind::fsdp) == 16 * kAll / 8);
}

TEST_CASE("memory: with bfloat16 the whole parameters and the gradients are half as large") {
  const RankMemory zero1 = memory_of(mixed(StrategyKind::zero1), model(), kEight);
  CHECK(zero1.parameters == 2 * kAll + 4 * kAll / 8);
  CHECK(zero1.gradients == 2 * kAll);
  CHECK(zero1.optimizer == 8 * kAll / 8);
  CHECK(zero1.total() == 4 * kAll + 12 * kAll / 8);
  const RankMemory zero2 = memory_of(mixed(StrategyKind::zero2), model(), kEight);
  CHECK(zero2.parameters == 2 * kAll + 4 * kAll / 8);
  CHECK(zero2.gradients == 2 * kAll / 8);
  const RankMemory fsdp = memory_of(mixed(StrategyKind::fsdp), model(), kEight);
  CHECK(fsdp.total() - fsdp.live == 14 * kAll / 8);
  // The rest and two units are whole, and as many gradients are on their way.
  CHECK(fsdp.live == 2 * (4e6 + 2 * 3e6) + 2 * (4e6 + 2 * 3e6));
}

TEST_CASE("memory: a GradScaler reads gradients of float16 in the type of the parameters, and wide sums stay wide") {
  Strategy strategy{.kind = StrategyKind::zero1, .param = Precision::float16};
  CHECK(memory_of(strategy, model(), kEight).gradients == 2 * kAll + 4 * kAll / 8);
  strategy.reduce = Precision::float32;
  CHECK(memory_of(strategy, model(), kEight).gradients == 4 * kAll);
  strategy = {.kind = StrategyKind::zero2, .param = Precision::bfloat16, .reduce = Precision::float32};
  CHECK(memory_of(strategy, model(), kEight).gradients == 4 * kAll / 8);
}

TEST_CASE("memory: live units depend on the keys of fsdp") {
  Strategy strategy{.kind = StrategyKind::fsdp, .prefetch = 0};
  const double rows = 4 * (4e6 + 2 * 3e6);
  CHECK(memory_of(strategy, model(), kEight).live == 4 * (4e6 + 3e6) + rows);
  strategy.reshard_after_forward = false;
  CHECK(memory_of(strategy, model(), kEight).live == 4 * kAll + rows);
  strategy = {.kind = StrategyKind::fsdp, .prefetch = 2, .prefetch_bytes = 8'000'000};
  CHECK(memory_of(strategy, model(), kEight).live == 4 * (4e6 + 3e6 + 2e6) + rows);
  strategy = {.kind = StrategyKind::fsdp, .reshard_size = 2};
  CHECK(memory_of(strategy, model(), kEight).live == 4 * (4e6 + 2 * 3e6 + 96e6 / 2) + rows);
  strategy = {.kind = StrategyKind::fsdp, .unit_elements = 3'000'001};  // no unit is one
  CHECK(memory_of(strategy, model(), kEight).live == 4 * kAll + 4 * kAll);
}

TEST_CASE("memory: a unit that stays with all ranks is no further copy") {
  Strategy strategy{.kind = StrategyKind::fsdp, .reshard_size = 8};
  CHECK(memory_of(strategy, model(), kEight).live == memory_of({.kind = StrategyKind::fsdp}, model(), kEight).live);
  strategy.shard_size = strategy.reshard_size = 4;
  Strategy alone{.kind = StrategyKind::fsdp, .shard_size = 4};
  CHECK(memory_of(strategy, model(), kEight).live == memory_of(alone, model(), kEight).live);
}

TEST_CASE("memory: the same bits for any number of ranks need rows of all gradients") {
  for (const StrategyKind kind : {StrategyKind::zero1, StrategyKind::zero2}) {
    Strategy strategy{.kind = kind, .deterministic = true};
    CHECK(memory_of(strategy, model(), kEight).gradients == 4 * kAll / 8);
    CHECK(memory_of(strategy, model(), kEight).live == 2 * 4 * kAll);  // a row, and the pieces of all ranks
    CHECK(memory_of(strategy, model(), {.ranks = 8, .micro_batches = 2}).live == 2 * 4 * kAll);
    CHECK(memory_of(strategy, model(), {.ranks = 8, .micro_batches = 16}).live == 5 * 4 * kAll);
    strategy.shard_size = 4;
    CHECK(memory_of(strategy, model(), kEight).gradients == 4 * kAll / 4);
    strategy = {.kind = kind, .param = Precision::bfloat16, .deterministic = true};
    CHECK(memory_of(strategy, model(), kEight).gradients == 2 * kAll / 8);
    CHECK(memory_of(strategy, model(), kEight).live == 2 * 2 * kAll);
  }
  const Strategy fsdp{.kind = StrategyKind::fsdp, .deterministic = true};
  CHECK(memory_of(fsdp, model(), kEight).live == 4 * 4e6 + 2 * 4 * kAll);  // units are parts again by then
  CHECK(memory_of(fsdp, model(), {.ranks = 8, .micro_batches = 4}).live == 4 * (4e6 + 2 * 3e6) + 3 * 4 * kAll);
  CHECK(memory_of(fsdp, model(), {.ranks = 4, .host_ranks = 4}).live == 2 * 4 * kAll);
}

TEST_CASE("memory: one copy on a host is shared by its ranks") {
  const TrainingSize host{.ranks = 4, .host_ranks = 4};
  const RankMemory same = memory_of({.kind = StrategyKind::fsdp}, model(), host);
  CHECK(same.parameters == 4 * kAll / 4);
  CHECK(same.live == 4 * (4e6 + 2 * 3e6));
  CHECK(memory_of(mixed(StrategyKind::fsdp), model(), host).parameters == 2 * kAll / 4 + 4 * kAll / 4);
  Strategy copies{.kind = StrategyKind::fsdp, .one_copy = false};
  CHECK(memory_of(copies, model(), host).live > same.live);
  // Over several hosts it has to be asked for.
  const TrainingSize hosts{.ranks = 8, .host_ranks = 4};
  CHECK(memory_of({.kind = StrategyKind::fsdp}, model(), hosts).parameters == 4 * kAll / 8);
  CHECK(memory_of({.kind = StrategyKind::fsdp, .one_copy = true}, model(), hosts).parameters == 4 * kAll / 4);
  CHECK(memory_of({.kind = StrategyKind::fsdp, .one_copy = true}, model(), hosts).live == same.live);
  CHECK(memory_of({.kind = StrategyKind::fsdp, .shard_size = 2}, model(), hosts).parameters == 4 * kAll / 2);
}

TEST_CASE("memory: sets of ranks, the optimizer, and the size of buckets count") {
  CHECK(memory_of({.kind = StrategyKind::zero1, .shard_size = 2}, model(), kEight).optimizer == 8 * kAll / 2);
  CHECK(memory_of({.kind = StrategyKind::ddp}, model(), {.ranks = 8, .state_numbers = 0}).optimizer == 0);
  CHECK(memory_of({.kind = StrategyKind::ddp}, model(), {.ranks = 8, .state_bytes = 2}).optimizer == 4 * kAll);
  Strategy zero2{.kind = StrategyKind::zero2};
  CHECK(memory_of(zero2, model(), kEight).live == 2 * (25.0 * 1024 * 1024 + 4 * 4e6));
  zero2.bucket_bytes = 4;
  CHECK(memory_of(zero2, model(), kEight).live == 2 * 4 * (1 + 4e6));  // the last parameter of a bucket is whole
  CHECK(memory_of({.kind = StrategyKind::fsdp}, model(), {}).parameters == 4 * kAll);
}

TEST_CASE("memory: a state on disk leaves in memory what a step has of it at a time") {
  for (const StrategyKind kind : {StrategyKind::ddp, StrategyKind::zero1, StrategyKind::zero2, StrategyKind::fsdp}) {
    const RankMemory memory = memory_of({.kind = kind}, model(), kEight);
    const RankMemory disk = memory_of({.kind = kind, .state_folder = "/scratch"}, model(), kEight);
    CHECK(memory.on_disk == 0);
    CHECK(disk.on_disk == memory.optimizer);
    CHECK(disk.optimizer == 64.0 * 1024 * 1024);
    CHECK(disk.total() == memory.total() - memory.optimizer + disk.optimizer);
  }
  CHECK(memory_of({.state_folder = "/scratch"}, {.rest = 10}, kEight).optimizer == 80);
}
