// Checkpoints of a sharded model, and optimizers that need more than elements.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "dtrain/dtrain.h"
#include "test/parity/joined.h"
#include "test/parity/parallel_model.h"
#include "test/support/catch.h"
#include "test/support/temp_folder.h"
#include "test/unit/strategies/ranks.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

// Trains for `steps` more, saves, and says what the parameters are.
std::string steps_with_checkpoints(Session& session, const Strategy& strategy, const std::string& folder, int steps) {
  const InDouble in_double;
  torch::manual_seed(session.rank());
  Parallel model(
      session, [] { return ParNet(); }, ParallelOptions{.strategy = strategy});
  ShardedOptimizer optimizer = model.optimizer(ShardedOptimizerOptions{
      .algorithm = AdamW{.lr = 0.01}, .groups = {{.dims_max = 1, .weight_decay = 0.0}}, .average_decay = 0.9});
  Checkpoints checkpoints(session.world(), folder, {.sync = false});
  const auto loaded = model.load(checkpoints, optimizer);
  const auto first = static_cast<int>(loaded ? loaded->step : 0);
  const std::int64_t mine = kBatch / session.world_size();
  for (int step = first; step < first + steps; ++step) {
    model.zero_grad();
    const Data data = batch_of(step, 0);
    const auto part = [&](const torch::Tensor& all) { return all.narrow(0, session.rank() * mine, mine); };
    loss_of(model(part(data.words)), part(data.classes)).backward();
    model.clip_grad_norm(0.5);
    model.step(optimizer);
  }
  model.save(checkpoints, first + steps, optimizer, R"({"seed": 7})");
  std::string said;
  const auto say = [&] {
    const auto full = model.full_parameters();
    for (const auto& each : model->named_parameters())
      said += fmt::format("{:.17g} ", each.value().square().sum().item<double>());
  };
  say();
  model.step([&] { optimizer.average()->swap_in(); });
  say();
  model.step([&] { optimizer.average()->swap_out(); });
  return said + (loaded ? loaded->extra : "") + " 0 0 0 0";
}

// What this process has read from files so far.
std::int64_t bytes_read() {
  std::ifstream io("/proc/self/io");
  std::string word;
  std::int64_t bytes = 0;
  io >> word >> bytes;
  REQUIRE(word == "rchar:");
  return bytes;
}

std::int64_t bytes_in(const std::string& folder) {
  std::int64_t bytes = 0;
  for (const auto& each : std::filesystem::recursive_directory_iterator(folder))
    if (each.is_regular_file()) bytes += static_cast<std::int64_t>(each.file_size());
  return bytes;
}

}  // namespace

TEST_CASE("the ranks together read each byte of a checkpoint once") {
  const test::TempFolder folder;
  using Kind = StrategyKind;
  const Strategy some[] = {{.kind = Kind::ddp},
                           {.kind = Kind::zero1},
                           {.kind = Kind::fsdp},
                           {.kind = Kind::fsdp, .one_copy = false},
                           {.kind = Kind::fsdp, .shard_size = 2}};
  for (const Strategy& strategy : some) {
    INFO(name_of(strategy.kind) << " " << strategy.shard_size);
    const std::string path = folder / fmt::format("{}-{}", name_of(strategy.kind), strategy.shard_size);
    std::int64_t all = 0;
    for (const std::string& each : on_ranks(4, [&](Session& session) {
           Parallel model(
               session, [] { return ParNet(256); }, ParallelOptions{.strategy = strategy});
           ShardedOptimizer optimizer = model.optimizer(AdamW{});
           Checkpoints checkpoints(session.world(), path, {.sync = false});
           model.save(checkpoints, 1, optimizer);
           const std::int64_t before = bytes_read();
           model.load(checkpoints, optimizer);
           return std::to_string(bytes_read() - before);
         }))
      all += std::stoll(each);
    // With the headers, which each rank reads.
    CHECK(static_cast<double>(all) >= 0.99 * static_cast<double>(bytes_in(path)));
    CHECK(static_cast<double>(all) < 1.05 * static_cast<double>(bytes_in(path)));
  }
}

TEST_CASE("load_state() brings the state of the optimizer alone") {
  const test::TempFolder folder;
  using Kind = StrategyKind;
  for (const Strategy& strategy :
       {Strategy{.kind = Kind::ddp}, Strategy{.kind = Kind::zero2}, Strategy{.kind = Kind::fsdp, .shard_size = 2}}) {
    const std::string path = folder / name_of(strategy.kind);
    INFO(path);
    const auto said = on_ranks(4, [&](Session& session) {
      Parallel model(
          session, [] { return ParNet(); }, ParallelOptions{.strategy = strategy, .broadcast_buffers = false});
      ShardedOptimizer optimizer = model.optimizer(AdamW{});
      const Data data = batch_of(0, session.rank());
      loss_of(model(data.words), data.classes).backward();
      model.step(optimizer);
      Checkpoints checkpoints(session.world(), path, {.sync = false});
      model.save(checkpoints, 1, optimizer);
      const torch::NoGradGuard no_grad;
      model->calls.fill_(session.rank());
      const auto sum_of_state = [&] {
        double sum = 0;
        for (const ShardState& each : optimizer.state())
          for (const auto& [name, values] : each.tensors) sum += values.abs().sum().item<double>();
        return sum;
      };
      const double before = sum_of_state();
      for (const ShardState& each : optimizer.state())
        for (const auto& [name, values] : each.tensors) at::Tensor(values).zero_();
      model.load_state(path + "/step-00000001", optimizer);
      return fmt::format("{} {}", model->calls.item<float>(), before > 0 && sum_of_state() == before);
    });
    for (std::size_t rank = 0; rank < said.size(); ++rank) CHECK(said[rank] == fmt::format("{} true", rank));
  }
}

TEST_CASE("a checkpoint goes from any strategy and number of ranks to any other") {
  const test::TempFolder folder;
  const auto run = [&](const Strategy& strategy, int ranks, const std::string& name, int steps) {
    const auto said =
        on_ranks(ranks, [&](Session& session) { return steps_with_checkpoints(session, strategy, name, steps); });
    for (const std::string& each : said) CHECK(each == said[0]);
    return said[0];
  };
  using Kind = StrategyKind;
  const std::string straight = run({.kind = Kind::ddp}, 1, folder / "straight", 25);
  const Way chain[] = {{"ddp", {.kind = Kind::ddp}},
                       {"fsdp", {.kind = Kind::fsdp}},
                       {"zero2", {.kind = Kind::zero2, .bucket_bytes = 500}},
                       {"fsdp, copies", {.kind = Kind::fsdp, .one_copy = false}},
                       {"zero1", {.kind = Kind::zero1}}};
  const int worlds[] = {2, 3, 4, 2, 1};
  std::string last;
  for (std::size_t i = 0; i < 5; ++i) {
    last = run(chain[i].strategy, worlds[i], folder / "chain", 5);
    CHECK((i == 0) == (last.find("seed") == std::string::npos));
  }
  const auto a = numbers_in(last), b = numbers_in(straight);
  REQUIRE(a.size() >= 20);
  for (std::size_t i = 0; i < 20; ++i) CHECK(std::abs(a[i] - b[i]) < 1e-9 * std::max(1.0, b[i]));
  // Hybrid sharding saves each part once, and loads what a single rank has saved.
  const std::string hybrid = run({.kind = Kind::fsdp, .shard_size = 2}, 4, folder / "chain", 1);
  CHECK(hybrid.find("seed") != std::string::npos);
}

TEST_CASE("LAMB, and Muon with owned matrices, train under every strategy as on one rank") {
  const auto run = [](Session& session, const Strategy& strategy, const OptimizerOptions& algorithm) {
    const InDouble in_double;
    torch::manual_seed(session.rank());
    Parallel model(
        session, [] { return ParNet(); }, ParallelOptions{.strategy = strategy, .placement = owned_matrices});
    ShardedOptimizer optimizer = model.optimizer(algorithm);
    const std::int64_t mine = kBatch / session.world_size();
    for (int step = 0; step < 10; ++step) {
      model.zero_grad();
      const Data data = batch_of(step, 0);
      const auto part = [&](const torch::Tensor& all) { return all.narrow(0, session.rank() * mine, mine); };
      loss_of(model(part(data.words)), part(data.classes)).backward();
      model.step(optimizer);
    }
    const auto full = model.full_parameters();
    std::string said;
    for (const auto& each : model->named_parameters())
      said += fmt::format("{:.17g} {:.17g} ", each.value().square().sum().item<double>(),
                          each.value().sum().item<double>());
    return said;
  };
  // Newton-Schulz runs in bfloat16, and a gradient that differs in its last bits may be rounded to another number.
  const std::vector<std::pair<OptimizerOptions, double>> algorithms{{Lamb{.lr = 0.02}, 1e-9},
                                                                    {Muon{.lr = 0.02, .adamw = {.lr = 0.01}}, 2e-2}};
  for (const auto& [algorithm, bound] : algorithms) {
    const auto expected = numbers_in(
        on_ranks(1, [&](Session& session) { return run(session, {.kind = StrategyKind::ddp}, algorithm); })[0]);
    for (const Way& way : ways()) {
      INFO(way.name);
      for (const std::string& each :
           on_ranks(3, [&](Session& session) { return run(session, way.strategy, algorithm); })) {
        const auto numbers = numbers_in(each);
        REQUIRE(numbers.size() == expected.size());
        for (std::size_t i = 0; i < numbers.size(); ++i)
          CHECK(std::abs(numbers[i] - expected[i]) < bound * std::max(1.0, std::abs(expected[i])));
      }
    }
  }
}
