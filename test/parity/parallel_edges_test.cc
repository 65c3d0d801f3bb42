// Corners of Parallel: what a forward takes, what is left behind a failure, norms that are not numbers.
#include <fmt/format.h>

#include <fstream>
#include <limits>

#include "dtrain/dtrain.h"
#include "strategies/optim/clip.h"
#include "strategies/parallel/exact_norm.h"
#include "strategies/shard/tree_sum.h"
#include "test/parity/joined.h"
#include "test/parity/parallel_model.h"
#include "test/support/catch.h"
#include "test/support/malloc.h"
#include "test/support/temp_folder.h"
#include "test/unit/strategies/ranks.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

const Strategy kCopies{.kind = StrategyKind::fsdp, .one_copy = false};

std::shared_ptr<ParNetImpl> edge_net() { return std::make_shared<ParNetImpl>(); }

// Takes tensors of its caller by reference, and gives one of them another value.
struct BorrowBlockImpl : torch::nn::Module {
  BorrowBlockImpl() : linear(register_module("linear", torch::nn::Linear(kWidth, kWidth))) {}
  torch::Tensor forward(std::vector<torch::Tensor>& list, std::map<std::string, torch::Tensor>& named, torch::Tensor& a,
                        torch::Tensor& b) {
    torch::Tensor y = linear(list.at(0)) + list.at(1) + named.at("x") + a * b;
    list.at(1) = y;
    list.pop_back();
    return y;
  }
  torch::nn::Linear linear;
};
DTRAIN_UNIT(BorrowBlock);

struct BorrowNetImpl : torch::nn::Module {
  BorrowNetImpl() : block(register_module("block", BorrowBlock())) {}
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor mine = x * 1;
    std::vector<torch::Tensor> list{mine, mine, mine};
    std::map<std::string, torch::Tensor> named{{"x", mine}};
    torch::Tensor same = mine;
    const torch::Tensor y = block(list, named, same, same);
    kept = list.size() == 2 && list[0].is_same(mine) && list[1].scalar_type() == y.scalar_type() &&
           named.at("x").is_same(mine) && same.is_same(mine);
    return y + list[0] + named.at("x") + same;
  }
  BorrowBlock block;
  bool kept = false;
};

}  // namespace

TEST_CASE("tensors that a unit takes by reference, in containers too, are the caller's again behind it") {
  for (const bool narrow : {false, true}) {
    Strategy strategy = kCopies;
    if (narrow) strategy.param = Precision::bfloat16;
    for (const std::string& each : on_ranks(2, [&](Session& session) {
           Parallel model(
               session, [] { return std::make_shared<BorrowNetImpl>(); }, ParallelOptions{.strategy = strategy});
           const torch::Tensor x = torch::ones({2, kWidth}, torch::requires_grad());
           const torch::Tensor y = model(x);
           y.sum().backward();
           return fmt::format("{} {}", model->kept, x.grad().defined());
         }))
      CHECK(each == "true true");
  }
}

TEST_CASE("behind a backward that failed, units are sharded again by the next forward") {
  for (const std::string& each : on_ranks(2, [&](Session& session) {
         Parallel model(session, edge_net, ParallelOptions{.strategy = kCopies});
         const Data data = batch_of(0, 0);
         torch::Tensor x;
         const auto failing = [&] {
           torch::Tensor loss = loss_of(model(data.words), data.classes);
           x = loss;
           // In the middle of the model's backward.
           const auto weight = model->head->weight;
           const auto hook =
               weight.register_hook([](const torch::Tensor&) -> torch::Tensor { throw std::runtime_error("no"); });
           const std::string said = message_of<std::exception>([&] { loss.backward(); });
           weight.remove_hook(hook);
           return said;
         };
         const std::string said = failing();
         {
           const torch::NoGradGuard no_grad;
           model(data.words);
         }
         const std::string outside = message_of<std::exception>([&] { model->head->weight.sum(); });
         return fmt::format("{} {}", said.find("no") != std::string::npos,
                            outside.find("head.weight") != std::string::npos);
       }))
    CHECK(each == "true true");
}

TEST_CASE("recompute around a unit leaves it whole if units stay whole between forward and backward") {
  for (const bool reshards : {false, true}) {
    Strategy strategy = kCopies;
    strategy.reshard_after_forward = reshards;
    for (const std::string& each : on_ranks(2, [&](Session& session) {
           struct NetImpl : torch::nn::Module {
             NetImpl() : block(register_module("block", ParBlock(kWidth))) {}
             torch::Tensor forward(const torch::Tensor& x) { return recompute(block, x); }
             ParBlock block;
           };
           Parallel model(
               session, [] { return std::make_shared<NetImpl>(); }, ParallelOptions{.strategy = strategy});
           const torch::Tensor loss = model(torch::ones({2, kWidth})).sum();
           const auto look = [&] { return message_of<std::exception>([&] { model->block->wide->weight.sum(); }); };
           const bool whole = look() == "no error";
           loss.backward();
           return fmt::format("{} {}", whole, look() == "no error");
         }))
      CHECK(each == (reshards ? "false false" : "true false"));
  }
}

TEST_CASE("load within full_parameters() is refused before it changes anything") {
  const TempFolder folder;
  for (const std::string& each : on_ranks(2, [&](Session& session) {
         Parallel model(session, edge_net, ParallelOptions{.strategy = kCopies});
         ShardedOptimizer optimizer = model.optimizer(Sgd{.lr = 0.1});
         Checkpoints checkpoints(session.world(), folder / "run", CheckpointOptions{.sync = false});
         model.save(checkpoints, 1, optimizer);
         const Data data = batch_of(0, 0);
         loss_of(model(data.words), data.classes).backward();
         model.step(optimizer);
         std::vector<torch::Tensor> before;
         for (const torch::Tensor& value : model.parameters()) before.push_back(value.clone());
         std::string said;
         {
           const auto full = model.full_parameters();
           said = message_of<std::exception>([&] { model.load(checkpoints, optimizer); });
         }
         bool same = true;
         for (std::size_t i = 0; i < before.size(); ++i) same &= before[i].equal(model.parameters()[i]);
         model.load(checkpoints, optimizer);
         bool loaded = false;
         for (std::size_t i = 0; i < before.size(); ++i) loaded |= !before[i].equal(model.parameters()[i]);
         return fmt::format("{} {} {}", said.find("full_parameters()") != std::string::npos, same, loaded);
       }))
    CHECK(each == "true true true");
}

TEST_CASE("deterministic: a rank keeps its part of the gradient alone, and LAMB is refused") {
  for (const std::string& each : on_ranks(4, [&](Session& session) {
         Parallel model(session, edge_net,
                        ParallelOptions{.strategy = Strategy{.kind = StrategyKind::fsdp, .deterministic = true}});
         const Data data = batch_of(0, 0);
         loss_of(model(data.words), data.classes).backward();
         std::size_t kept = 0, needed = 0;
         for (const torch::Tensor& gradient : model.gradients()) {
           kept = std::max(kept, gradient.storage().nbytes());
           needed = std::max(needed, gradient.nbytes());
         }
         const std::string said = message_of<ConfigError>([&] { model.optimizer(Lamb{}); });
         // Frozen parameters and padding lie in the same memory.
         return fmt::format("{} {}", kept < 2 * needed, said.find("LAMB") != std::string::npos);
       }))
    CHECK(each == "true true");
}

TEST_CASE("the exact norm does not depend on who has what, and says when it is no number") {
  const auto clipped = [](int ranks, const std::vector<double>& all, double limit) {
    return on_ranks(ranks, [&](Session& session) {
      std::vector<torch::Tensor> mine;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (static_cast<int>(i) % ranks == session.rank()) mine.push_back(torch::full({1}, all[i], torch::kDouble));
      }
      if (mine.empty()) mine.emplace_back();  // nothing of the model
      const torch::Tensor found = exact_norm_of(mine, session.world(), torch::kCPU);
      scale_down(mine, clip_factor(found, limit));
      const double norm = found.item<double>();
      bool finite = true;
      for (const torch::Tensor& each : mine) finite &= !each.defined() || std::isfinite(each.item<double>());
      return fmt::format("{:a} {}", norm, finite);
    });
  };
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const std::vector<double> numbers{1e-8, 3.25, -1e5, 7e-3, 0, 1e9, 2.5e-300};
  const std::string expected = clipped(1, numbers, 1)[0];
  CHECK(std::stod(expected) == Approx(std::sqrt(1e18 + 1e10 + 3.25 * 3.25)).epsilon(1e-12));
  for (const int ranks : {2, 3, 8}) {
    for (const std::string& each : clipped(ranks, numbers, 1)) CHECK(each == expected);
    for (const std::string& each : clipped(ranks, {1, std::nan(""), 2}, 1)) CHECK(each.substr(0, 3) == "nan");
    for (const std::string& each : clipped(ranks, {1, 1, -kInfinite, 2}, 1)) CHECK(each.substr(0, 3) == "inf");
    for (const std::string& each : clipped(ranks, {1e-310, 0, 2e-310}, 1)) CHECK(std::stod(each) < 1e-300);
  }
  // Of whatever type the same numbers are.
  const auto norm_of = [](at::ScalarType type) {
    return on_ranks(1, [&](Session& session) {
      torch::manual_seed(1);
      const torch::Tensor narrow = torch::randn({77, 13}).to(at::kBFloat16);
      return fmt::format("{:a}", exact_norm_of({narrow.to(type).t(), {}}, session.world(), torch::kCPU).item<double>());
    })[0];
  };
  CHECK(norm_of(at::kBFloat16) == norm_of(at::kDouble));
  CHECK(norm_of(at::kFloat) == norm_of(at::kDouble));
  // Whoever has the number that is none: its gradient is none either.
  CHECK(clipped(2, {1, std::nan("")}, 1)[1] == "nan false");
  CHECK(clipped(2, {1, std::nan("")}, 1)[0] == "nan false");
}

TEST_CASE("rows are added up in the order of a tree") {
  const std::vector<float> numbers{1e8F, 1, -1e8F, 1, 3, 1e-3F, 5e7F, 1};
  const auto row = [](float number) { return torch::full({1}, number); };
  TreeSum sum;
  int dropped = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    CHECK(sum.is_complete() == (i == 1 || i == 2 || i == 4));
    sum.add(row(numbers[i]), [&](const torch::Tensor&) { ++dropped; });
  }
  const auto add = [](float a, float b) { return a + b; };
  const float expected = add(add(add(numbers[0], numbers[1]), add(numbers[2], numbers[3])),
                             add(add(numbers[4], numbers[5]), add(numbers[6], numbers[7])));
  CHECK(sum.take().item<float>() == expected);
  CHECK(dropped == 7);
  CHECK(tree_sum(torch::tensor(numbers).view({8, 1})).item<float>() == expected);
}

namespace {

struct LargeBlockImpl : torch::nn::Module {
  LargeBlockImpl() : linear(register_module("linear", torch::nn::Linear(512, 512))) {}
  torch::Tensor forward(const torch::Tensor& x) { return torch::tanh(linear(x)); }
  torch::nn::Linear linear;
};
DTRAIN_UNIT(LargeBlock);

// MiB of this process that are no file's and nobody else's.
double private_memory() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  for (std::string word; rollup >> word;) {
    if (word != "Pss_Anon:") continue;
    double kilobytes = 0;
    rollup >> kilobytes;
    return kilobytes / 1024;
  }
  return 0;
}

}  // namespace

TEST_CASE("a rank has the memory of its part, also while the model is built") {
  for (const std::string& each : on_ranks(4, [&](Session& session) {
         // What is made once has been made.
         torch::nn::Linear(8, 8)->forward(torch::ones({2, 8})).sum().backward();
         const double before = private_memory();
         double most = 0;
         Parallel model(
             session,
             [&] {
               torch::nn::Sequential net;
               for (int i = 0; i < 64; ++i) {
                 net->push_back(LargeBlock());
                 most = std::max(most, private_memory() - before);
               }
               return net;
             },
             ParallelOptions{.strategy = kCopies});
         return fmt::format("{:.1f} {:.1f}", private_memory() - before, most);
       })) {
    INFO(each << " MiB at the end and at most; 16 are its part, and 64 the whole model");
    const std::vector<double> numbers = numbers_in(each);
    CHECK(numbers[0] > 14);
    if (test::kOtherMalloc) continue;
    CHECK(numbers[0] < 20);
    CHECK(numbers[1] < 56);
  }
}

namespace {

struct TwoTypesImpl : torch::nn::Module {
  explicit TwoTypesImpl(std::int64_t width) {
    const auto add = [&](const char* name, std::int64_t rows, std::int64_t columns, at::ScalarType type) {
      register_parameter(name, torch::zeros({rows, columns}, type));
    };
    add("wide", 3 * width, width, torch::kBFloat16);
    add("narrow", width, 3 * width, torch::kBFloat16);
    add("tall", 2 * width, width, torch::kFloat);
    add("square", width, width, torch::kFloat);
  }
  torch::Tensor forward(const torch::Tensor& x) { return x; }
};
DTRAIN_UNIT(TwoTypes);

}  // namespace

TEST_CASE("owned matrices of units of different sizes and of two types are balanced by their bytes") {
  const auto said = on_ranks(3, [](Session& session) {
    Parallel model(
        session,
        [] {
          torch::nn::Sequential all;
          for (int i = 0; i < 12; ++i) all->push_back(TwoTypes(8 + 4 * (i * 5 % 7)));
          return all.ptr();
        },
        ParallelOptions{.strategy = Strategy{.kind = StrategyKind::fsdp}, .placement = owned_matrices});
    std::size_t bytes = 0;
    for (const torch::Tensor& each : model.parameters()) bytes += each.nbytes();
    return std::to_string(bytes);
  });
  const double all = std::stod(said[0]) + std::stod(said[1]) + std::stod(said[2]);
  for (const std::string& each : said) {
    INFO(each << " of " << all);
    CHECK(std::abs(std::stod(each) * 3 / all - 1) <= 0.05);
  }
}
