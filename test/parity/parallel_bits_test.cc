// The same parameters to the last bit, for any number of ranks; and what a step copies.
#include <ATen/record_function.h>
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

struct BitsRecipe {
  std::int64_t width = kWidth;
  OptimizerOptions algorithm = AdamW{.lr = 0.02};
};

// Steps of eight micro-batches, divided between the ranks.
std::string train_in_micro_batches(Session& session, const Strategy& strategy, int first, int last,
                                   const std::string& folder = {}, const BitsRecipe& recipe = {}) {
  constexpr int kMicroBatches = 8;
  torch::set_num_threads(8 / session.world_size());  // the ranks divide the cores, as the launcher has it
  torch::manual_seed(7);
  ParallelOptions options{.strategy = strategy};
  if (std::holds_alternative<Muon>(recipe.algorithm)) options.placement = owned_matrices;
  Parallel model(
      session, [&] { return ParNet(recipe.width); }, options);
  ShardedOptimizer optimizer = model.optimizer(recipe.algorithm);
  std::optional<Checkpoints> checkpoints;
  if (!folder.empty()) {
    checkpoints.emplace(session.world(), folder, CheckpointOptions{.sync = false});
    model.load(*checkpoints, optimizer);
  }
  const int mine = kMicroBatches / session.world_size(), begin = session.rank() * mine;
  std::string said;
  for (int step = first; step < last; ++step) {
    model.zero_grad();
    for (int micro = begin; micro < begin + mine; ++micro) {
      const Data data = batch_of(step, micro);
      const auto learn = [&] { (loss_of(model(data.words), data.classes) / mine).backward(); };
      if (micro + 1 < begin + mine) {
        const auto quiet = model.no_sync();
        learn();
      } else {
        learn();
      }
    }
    said = fmt::format("{:a} ", model.clip_grad_norm(0.5).item<double>());
    model.step(optimizer);
  }
  if (checkpoints) model.save(*checkpoints, last, optimizer);
  const auto full = model.full_parameters();
  for (const auto& each : model->parameters()) said += bits_of({each}) + " ";
  return said;
}

}  // namespace

TEST_CASE("deterministic: 1, 2, 4 and 8 ranks, sharded in any way, have the same bits") {
  using Kind = StrategyKind;
  const std::vector<Strategy> some{{.kind = Kind::fsdp, .deterministic = true},
                                   {.kind = Kind::fsdp, .one_copy = false, .deterministic = true},
                                   {.kind = Kind::fsdp, .shard_size = 2, .deterministic = true},
                                   {.kind = Kind::zero1, .deterministic = true},
                                   {.kind = Kind::zero2, .deterministic = true, .bucket_bytes = 500}};
  std::string expected;
  for (const int ranks : {1, 2, 4, 8}) {
    for (const Strategy& strategy : some) {
      if (strategy.shard_size > ranks) continue;
      INFO(name_of(strategy.kind) << " on " << ranks);
      for (const std::string& each :
           on_ranks(ranks, [&](Session& session) { return train_in_micro_batches(session, strategy, 0, 12); })) {
        if (expected.empty()) expected = each;
        CHECK(each == expected);
      }
    }
  }
  // Across a change of the number of ranks and of the strategy.
  const TempFolder folder;
  const Strategy fsdp{.kind = Kind::fsdp, .deterministic = true}, zero1{.kind = Kind::zero1, .deterministic = true};
  on_ranks(4, [&](Session& session) { return train_in_micro_batches(session, fsdp, 0, 5, folder / "run"); });
  on_ranks(1, [&](Session& session) { return train_in_micro_batches(session, zero1, 5, 9, folder / "run"); });
  for (const std::string& each :
       on_ranks(2, [&](Session& session) { return train_in_micro_batches(session, fsdp, 9, 12, folder / "run"); }))
    CHECK(each == expected);
}

TEST_CASE("deterministic: Muon has the bits of one process, with matrices at other places in memory") {
  for (const std::int64_t width : {64, 33}) {
    std::string expected;
    for (const int ranks : {1, 2, 4}) {
      for (const StrategyKind kind : {StrategyKind::fsdp, StrategyKind::zero2}) {
        INFO(name_of(kind) << " on " << ranks << ", width " << width);
        const Strategy strategy{.kind = kind, .deterministic = true};
        const BitsRecipe recipe{.width = width, .algorithm = Muon{.lr = 0.02, .adamw = {.lr = 0.01}}};
        for (const std::string& each : on_ranks(ranks, [&](Session& session) {
               return train_in_micro_batches(session, strategy, 0, 6, {}, recipe);
             })) {
          if (expected.empty()) expected = each;
          CHECK(each == expected);
        }
      }
    }
  }
}

TEST_CASE("deterministic: what cannot be added up in order is refused") {
  const Strategy strategy{.kind = StrategyKind::fsdp, .deterministic = true};
  for (const std::string& each : on_ranks(3, [&](Session& session) {
         return message_of<ConfigError>([&] { train_in_micro_batches(session, strategy, 0, 1); });
       }))
    CHECK_THAT(each, Catch::Contains("needs 1, 2, 4, 8, ... ranks, and there are 3"));
  for (const bool quiet : {false, true}) {
    for (const std::string& each : on_ranks(2, [&](Session& session) {
           Parallel model(
               session, [] { return ParNet(); }, ParallelOptions{.strategy = strategy});
           const Data data = batch_of(0, 0);
           const auto learn = [&] { loss_of(model(data.words), data.classes).backward(); };
           return message_of<ConfigError>([&] {
             for (int i = 0; i < 2; ++i) {
               if (!quiet) {
                 learn();
                 continue;
               }
               const auto without = model.no_sync();
               learn();
             }
             learn();
           });
         }))
      CHECK_THAT(each, Catch::Contains(quiet ? "need steps of 1, 2, 4, 8, ... micro-batches" : "under no_sync()"));
  }
}

namespace {

// No rank's part needs padding, which an optimizer's last elements may need copies for.
struct EvenBlockImpl : torch::nn::Module {
  EvenBlockImpl()
      : linear(register_module("linear", torch::nn::Linear(torch::nn::LinearOptions(16, 16).bias(false)))) {}
  torch::Tensor forward(const torch::Tensor& x) { return torch::tanh(linear(x)); }
  torch::nn::Linear linear;
};
DTRAIN_UNIT(EvenBlock);
struct EvenNetImpl : torch::nn::Module {
  EvenNetImpl()
      : first(register_module("first", EvenBlock())),
        second(register_module("second", EvenBlock())),
        head(register_module("head", torch::nn::Linear(torch::nn::LinearOptions(16, 16).bias(false)))) {}
  torch::Tensor forward(const torch::Tensor& x) { return head(second(first(x))); }
  EvenBlock first, second;
  torch::nn::Linear head;
};

int copies = 0;

// Of the second of two equal steps.
int copies_in(const std::function<void()>& step) {
  step();
  copies = 0;
  const auto count = [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
    const std::string_view name = function.name();
    for (const std::string_view copying : {"aten::copy_", "aten::clone", "aten::cat", "aten::_to_copy"})
      copies += name == copying ? 1 : 0;
    return nullptr;
  };
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(count).scopes({at::RecordScope::FUNCTION}));
  step();
  at::removeCallback(handle);
  return copies;
}

}  // namespace

TEST_CASE("in a step no parameter is copied, and each gradient once") {
  for (const StrategyKind kind : {StrategyKind::zero1, StrategyKind::zero2, StrategyKind::fsdp}) {
    for (const int way : {0, 1, 2, 3}) {
      const bool one_copy = way % 2 == 0, muon = way / 2 == 1;
      for (const std::string& each : on_ranks(2, [&](Session& session) {
             const torch::Tensor x = torch::ones({4, 16});
             EvenNetImpl plain;
             const int its_own = copies_in([&] {
               plain.zero_grad();
               plain.forward(x).square().mean().backward();
             });
             Parallel model(
                 session, [] { return std::make_shared<EvenNetImpl>(); },
                 // Three matrices of two ranks: with Muon the parts have different sizes.
                 ParallelOptions{.strategy = Strategy{.kind = kind, .one_copy = one_copy},
                                 .placement = muon ? owned_matrices : nullptr});
             ShardedOptimizer optimizer =
                 model.optimizer(muon ? OptimizerOptions(Muon{}) : OptimizerOptions(Sgd{.lr = 0.1}));
             const int all = copies_in([&] {
               model.zero_grad();
               model(x).square().mean().backward();
               model.step([&] {
                 const int before = copies;
                 optimizer.step(model.gradients());
                 if (muon) copies = before;  // its matrices in bfloat16
               });
             });
             return fmt::format("{} {}", all - its_own, model->parameters().size());
           })) {
        INFO(name_of(kind) << (muon ? ", Muon: " : ": ") << each);
        CHECK(each == "3 3");
      }
    }
  }
}
