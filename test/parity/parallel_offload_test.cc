// Strategies whose state_folder has the optimizer's state.
#include <fmt/format.h>

#include "dtrain/dtrain.h"
#include "test/parity/joined.h"
#include "test/parity/parallel_model.h"
#include "test/support/catch.h"
#include "test/support/temp_folder.h"
#include "test/unit/strategies/ranks.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

namespace fs = std::filesystem;

// Goes on from the checkpoint in `folder`, if there is one, and saves one.
std::string trained_from(Session& session, const Strategy& strategy, const OptimizerOptions& algorithm,
                         const std::string& folder) {
  const InDouble in_double;
  torch::manual_seed(session.rank());
  Parallel model(
      session, [] { return ParNet(); }, ParallelOptions{.strategy = strategy, .placement = owned_matrices});
  ShardedOptimizer optimizer = model.optimizer(algorithm);
  Checkpoints checkpoints(session.world(), folder, {.sync = false});
  const auto loaded = model.load(checkpoints, optimizer);
  const auto first = static_cast<int>(loaded ? loaded->step : 0);
  const std::int64_t mine = kBatch / session.world_size();
  for (int step = first; step < first + 3; ++step) {
    model.zero_grad();
    const Data data = batch_of(step, 0);
    const auto part = [&](const torch::Tensor& all) { return all.narrow(0, session.rank() * mine, mine); };
    loss_of(model(part(data.words)), part(data.classes)).backward();
    model.step(optimizer);
  }
  model.save(checkpoints, first + 3, optimizer);
  const auto full = model.full_parameters();
  return fmt::format("{} {}", first, bits_of(model->parameters()));
}

}  // namespace

TEST_CASE("state on disk: every strategy trains, saves and goes on to the bits of state in memory") {
  const TempFolder folder(fs::current_path());
  const std::vector<OptimizerOptions> algorithms{AdamW{.lr = 0.01}, Lamb{.lr = 0.02},
                                                 Adagrad{.initial_accumulator_value = 0.1},
                                                 Muon{.lr = 0.02, .adamw = {.lr = 0.01}}};
  int number = 0;
  for (const Way& way : ways()) {
    for (std::size_t i = 0; i < algorithms.size(); ++i) {
      if (i > 0 && number % 2 != 0) continue;  // AdamW under each strategy
      INFO(way.name << ", " << i);
      const auto run = [&](bool on_disk, const std::string& name) {
        Strategy strategy = way.strategy;
        if (on_disk) strategy.state_folder = folder.path();
        return on_ranks(2, [&](Session& session) {
          return trained_from(session, strategy, algorithms[i], folder / fmt::format("{}-{}-{}", name, number, i));
        });
      };
      const auto memory = run(false, "memory"), memory_on = run(false, "memory");
      CHECK(run(true, "disk") == memory);
      CHECK(run(true, "disk") == memory_on);             // from disk to disk
      CHECK(run(true, "memory") == run(false, "disk"));  // from memory to disk, and from disk to memory
      CHECK(memory[0].starts_with("0 "));
      CHECK(memory_on[0].starts_with("3 "));
    }
    ++number;
  }
}

TEST_CASE("state on disk: a save in the background has the state of its step") {
  const TempFolder folder(fs::current_path());
  const auto said = on_ranks(1, [&](Session& session) -> std::string {
    const at::Tensor values = torch::randn({3'000'000});
    const auto pieces_of = [](const ShardedOptimizer& optimizer) {
      CheckpointState state;
      for (const ShardState& each : optimizer.state())
        for (const auto& [name, tensor] : each.tensors)
          state.optimizer.push_back({each.name + "." + name, tensor.scalar_type(), {each.count}, 0, tensor});
      return state;
    };
    const ShardedOptimizerOptions options{.algorithm = AdamW{}, .state_folder = folder.path()};
    ShardedOptimizer optimizer(options, {{values, {{"a", {3'000'000}, 0, values}}}});
    optimizer.step({torch::randn({3'000'000})});
    std::vector<at::Tensor> saved;
    for (const ShardState& each : optimizer.state())
      for (const auto& [name, tensor] : each.tensors) saved.push_back(tensor.clone());
    Checkpoints checkpoints(session.world(), folder / "saved", {.sync = false});
    checkpoints.save_async(pieces_of(optimizer));
    optimizer.step({torch::randn({3'000'000})});  // while a thread writes
    checkpoints.wait();
    ShardedOptimizer other(options, {{values, {{"a", {3'000'000}, 0, values}}}});
    CheckpointState state = pieces_of(other);  // filled where it lies
    checkpoints.load(state);
    std::string same;
    for (std::size_t i = 0; i < saved.size(); ++i) {
      same += at::equal(other.state()[0].tensors[i].second, saved[i]) ? "same " : "other ";
      same += at::equal(optimizer.state()[0].tensors[i].second, saved[i]) ? "same " : "other ";
    }
    return same;
  });
  CHECK(said[0] == "same other same other ");
}

TEST_CASE("state on disk: a program whose optimizer keeps its state in memory gets an error") {
  const TempFolder folder(fs::current_path());
  const auto said = on_ranks(1, [&](Session& session) {
    const Strategy strategy{.kind = StrategyKind::zero1, .state_folder = folder.path()};
    Parallel model(
        session, [] { return ParNet(); }, ParallelOptions{.strategy = strategy});
    torch::optim::SGD sgd(model.parameters(), 0.1);
    const Data data = batch_of(0, 0);
    loss_of(model(data.words), data.classes).backward();
    std::string errors = message_of<ConfigError>([&] { model.step(sgd); }) + "\n" +
                         message_of<ConfigError>([&] { model.step([&] { sgd.step(); }); }) + "\n";
    errors +=
        message_of<ConfigError>([&] { model.optimizer({.algorithm = AdamW{}, .state_folder = "/other"}); }) + "\n";
    ShardedOptimizer optimizer = model.optimizer(AdamW{});
    model.step(optimizer);
    errors += message_of<ConfigError>([&] { model.step(sgd); });
    return errors;
  });
  const std::string in_memory =
      "the program steps an optimizer that keeps its state in memory; let Parallel::optimizer()";
  const std::size_t first = said[0].find(in_memory), second = said[0].find(in_memory, first + 1);
  INFO(said[0]);
  REQUIRE(second != std::string::npos);
  CHECK(said[0].find(in_memory, second + 1) != std::string::npos);
  CHECK_THAT(said[0], Catch::Contains("', and the program's is '/other'; remove one of them"));
}
