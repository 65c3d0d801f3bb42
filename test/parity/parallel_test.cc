// One model under every strategy, against the same training in one process.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>

#include "dtrain/dtrain.h"
#include "test/parity/joined.h"
#include "test/parity/parallel_model.h"
#include "test/support/catch.h"
#include "test/unit/strategies/ranks.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

struct Recipe {
  int steps = 50;
  int micro = 1;
  bool sync_each = false;
  double clip = 0;
};

// The parameters and losses after training in one process.
std::string alone(const Recipe& recipe) {
  const InDouble in_double;
  torch::manual_seed(0);
  ParNet net;
  torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(0.01));
  std::string said;
  for (int step = 0; step < recipe.steps; ++step) {
    net->zero_grad();
    for (int micro = 0; micro < recipe.micro; ++micro) {
      const Data data = batch_of(step, micro);
      torch::Tensor loss = loss_of(net(data.words), data.classes);
      loss.backward();
      said += fmt::format("{:.17g} ", loss.item<double>());
    }
    if (recipe.clip > 0) torch::nn::utils::clip_grad_norm_(net->parameters(), recipe.clip);
    optimizer.step();
  }
  for (const auto& each : net->named_parameters())
    said += fmt::format("{:.17g} ", each.value().square().sum().item<double>());
  return said;
}

std::string together(Session& session, const Recipe& recipe, const Strategy& strategy,
                     const std::function<Placement(const std::string&, const torch::Tensor&)>& placement = {}) {
  const InDouble in_double;
  torch::manual_seed(session.rank());  // rank 0's weights must come to all
  Parallel model(
      session, [] { return ParNet(); }, ParallelOptions{.strategy = strategy, .placement = placement});
  torch::optim::AdamW optimizer(model.parameters(), torch::optim::AdamWOptions(0.01));
  std::string said;
  const int ranks = session.world_size();
  const std::int64_t mine = kBatch / ranks;
  for (int step = 0; step < recipe.steps; ++step) {
    model.zero_grad();
    for (int micro = 0; micro < recipe.micro; ++micro) {
      const Data data = batch_of(step, micro);
      const auto part = [&](const torch::Tensor& all) { return all.narrow(0, session.rank() * mine, mine); };
      torch::Tensor loss;
      const auto learn = [&] {
        loss = loss_of(model(part(data.words)), part(data.classes));
        loss.backward();
      };
      if (!recipe.sync_each && micro + 1 < recipe.micro) {
        const auto quiet = model.no_sync();
        learn();
      } else {
        learn();
      }
      torch::Tensor mean = loss.detach().clone();
      session.all_reduce(mean, c10d::ReduceOp::AVG);
      said += fmt::format("{:.17g} ", mean.item<double>());
    }
    if (recipe.clip > 0) model.clip_grad_norm(recipe.clip);
    model.step(optimizer);
  }
  const auto full = model.full_parameters();
  for (const auto& each : model->named_parameters())
    said += fmt::format("{:.17g} ", each.value().square().sum().item<double>());
  return said;
}

// In a child of its own: torch's threads do not survive a fork.
std::string alone_in_child(const Recipe& recipe) {
  const auto outcomes = test::run_ranks(1, [&](int) {
    torch::set_num_threads(1);
    return alone(recipe);
  });
  test::require_all_returned(outcomes);
  return outcomes[0].said;
}

void check_ways(const Recipe& recipe, const std::vector<int>& worlds) {
  const std::string expected = alone_in_child(recipe);
  for (const Way& way : ways()) {
    for (const int ranks : worlds) {
      INFO(way.name << ", " << ranks << " ranks");
      const auto said = on_ranks(ranks, [&](Session& session) { return together(session, recipe, way.strategy); });
      for (const std::string& each : said) check_close(each, expected);
    }
  }
}

}  // namespace

TEST_CASE("every strategy trains as one process does") { check_ways({}, {1, 2, 3, 4}); }

TEST_CASE("the same with accumulated gradients and clipping") {
  check_ways({.steps = 12, .micro = 3, .sync_each = false, .clip = 0.5}, {2, 3});
  check_ways({.steps = 12, .micro = 3, .sync_each = true, .clip = 0.5}, {2, 3});
}

TEST_CASE("hybrid sharding, owned matrices and blocks of rows") {
  const Recipe recipe{.steps = 20, .clip = 0.7};
  const std::string expected = alone_in_child(recipe);
  for (const bool one_copy : {true, false}) {
    for (const StrategyKind kind : {StrategyKind::fsdp, StrategyKind::zero1, StrategyKind::zero2}) {
      const Strategy hybrid{.kind = kind, .one_copy = one_copy, .shard_size = 2};
      for (const std::string& each : on_ranks(4, [&](Session& session) { return together(session, recipe, hybrid); }))
        check_close(each, expected);
      for (const bool blocks : {false, true}) {
        const auto placement = [&](const std::string&, const torch::Tensor& parameter) {
          if (parameter.dim() != 2) return Placement{};
          return blocks ? Placement::blocks_of(4) : Placement::owned();
        };
        const Strategy plain{.kind = kind, .one_copy = one_copy};
        for (const std::string& each :
             on_ranks(3, [&](Session& session) { return together(session, recipe, plain, placement); }))
          check_close(each, expected);
      }
    }
  }
}

TEST_CASE("units that few ranks share between forward and backward, and units by their class") {
  const Recipe recipe{.steps = 20, .clip = 0.7};
  const std::string expected = alone_in_child(recipe);
  const auto check = [&](const Strategy& strategy, const auto& placement) {
    for (const std::string& each :
         on_ranks(4, [&](Session& session) { return together(session, recipe, strategy, placement); }))
      check_close(each, expected);
  };
  using Placing = std::function<Placement(const std::string&, const torch::Tensor&)>;
  const Strategy near{.kind = StrategyKind::fsdp, .reshard_size = 2, .one_copy = false};
  check(near, Placing());
  check(near, Placing(owned_matrices));
  Strategy shared = near;
  shared.one_copy = true;
  check(shared, Placing());
  check({.kind = StrategyKind::fsdp, .units = {"ParBlock"}, .one_copy = false}, Placing());
}

TEST_CASE("tied and frozen parameters, a unit that runs twice, one that runs not, and an input that needs a gradient") {
  struct OddImpl : torch::nn::Module {
    OddImpl() {
      embed = register_module("embed", torch::nn::Embedding(11, kWidth));
      first = register_module("first", ParBlock(kWidth));
      frozen = register_module("frozen", torch::nn::Linear(kWidth, kWidth));
      unused = register_module("unused", torch::nn::Linear(kWidth, kWidth));
      for (auto& each : frozen->parameters()) each.set_requires_grad(false);
    }
    torch::Tensor forward(const torch::Tensor& words) {
      torch::Tensor x = embed(words);
      x = first(frozen(first(x)));
      return torch::matmul(x, embed->weight.t());  // tied
    }
    torch::nn::Embedding embed{nullptr};
    ParBlock first{nullptr};
    torch::nn::Linear frozen{nullptr}, unused{nullptr};
  };
  const auto train = [](const std::function<torch::Tensor(const torch::Tensor&)>& forward, torch::optim::Optimizer& sgd,
                        const std::function<void()>& step, const std::function<void()>& clear, int rank, int ranks) {
    for (int i = 0; i < 10; ++i) {
      clear();
      const Data data = batch_of(i, 0);
      const std::int64_t mine = kBatch / ranks;
      const auto part = [&](const torch::Tensor& all) { return all.narrow(0, rank * mine, mine); };
      loss_of(forward(part(data.words)), part(data.classes)).backward();
      step();
    }
    (void)sgd;
  };
  const auto said_of = [](torch::nn::Module& module) {
    std::string said;
    for (const auto& each : module.named_parameters())
      said += fmt::format("{:.17g} {:.17g} ", each.value().square().sum().item<double>(),
                          each.value().sum().item<double>());
    return said + "0 0 0 0 0";
  };
  const auto outcomes = test::run_ranks(1, [&](int) {
    torch::set_num_threads(1);
    const InDouble in_double;
    torch::manual_seed(0);
    OddImpl net;
    torch::optim::SGD sgd(net.parameters(), 0.05);
    train([&](const torch::Tensor& x) { return net.forward(x); }, sgd, [&] { sgd.step(); }, [&] { net.zero_grad(); }, 0,
          1);
    return said_of(net);
  });
  test::require_all_returned(outcomes);
  for (const Way& way : ways()) {
    if (way.strategy.kind == StrategyKind::ddp) continue;  // which refuses what takes no part
    for (const std::string& each : on_ranks(2, [&](Session& session) {
           const InDouble in_double;
           torch::manual_seed(session.rank());
           Parallel model(
               session, [] { return std::make_shared<OddImpl>(); }, ParallelOptions{.strategy = way.strategy});
           torch::optim::SGD sgd(model.parameters(), 0.05);
           train([&](const torch::Tensor& x) { return model(x); }, sgd, [&] { model.step(sgd); },
                 [&] { model.zero_grad(); }, session.rank(), session.world_size());
           const auto full = model.full_parameters();
           return said_of(model.module());
         })) {
      INFO(way.name);
      check_close(each, outcomes[0].said);
    }
  }
}

// Reads a parameter of a block where the block does not run.
struct PeekingImpl : ParNetImpl {
  torch::Tensor forward(const torch::Tensor& words) {
    return ParNetImpl::forward(words) * blocks->named_parameters()[peeked].square().sum();
  }
  std::string peeked = "1.norm.weight";
};
TORCH_MODULE(Peeking);

TEST_CASE("with whole_elements, small parameters are whole through the whole forward") {
  const auto said = on_ranks(2, [](Session& session) {
    std::string found;
    for (const std::int64_t whole : {0, 5, 6}) {
      const Strategy strategy{.kind = StrategyKind::fsdp, .whole_elements = whole, .one_copy = false};
      Parallel model(
          session, [] { return Peeking(); }, ParallelOptions{.strategy = strategy});
      const Data data = batch_of(0, 0);
      const auto pass = [&] { loss_of(model(data.words), data.classes).backward(); };
      found += fmt::format("{}: {} ", whole, test::message_of<c10::Error>(pass).substr(0, 60));
      model->peeked = "1.wide.weight";
      found += test::message_of<c10::Error>(pass).substr(0, 60) + "\n";
    }
    return found;
  });
  for (const std::string& each : said) {
    INFO(each);
    for (const std::string& whole : std::vector<std::string>{"0: ", "5: "})
      CHECK_THAT(each, Catch::Contains(whole + "dtrain: parameter 'blocks.1.norm.weight' is sharded here"));
    CHECK_THAT(each, Catch::Contains("6: no error dtrain: parameter 'blocks.1.wide.weight' is sharded here"));
  }
}

struct WideningImpl : ParNetImpl {
  torch::Tensor forward(const torch::Tensor& words) { return head(blocks->forward(embed(words).to(torch::kFloat))); }
};
TORCH_MODULE(Widening);

TEST_CASE("a unit whose parameters are all small computes in the type of the others") {
  const auto said = on_ranks(2, [](Session& session) {
    const Strategy strategy{
        .kind = StrategyKind::fsdp, .param = Precision::bfloat16, .whole_elements = 1000, .one_copy = false};
    Parallel model(
        session, [] { return Widening(); }, ParallelOptions{.strategy = strategy});
    return std::string(c10::toString(model(batch_of(0, 0).words).scalar_type()));
  });
  for (const std::string& each : said) CHECK(each == "BFloat16");
}

struct Warnings final : c10::WarningHandler {
  std::string text;
  void process(const c10::Warning& warning) override { text += warning.msg(); }
};

TEST_CASE("a bound below every unit is told, as it turns prefetching off") {
  const auto warned = [](std::int64_t bytes, int prefetch) {
    return on_ranks(2, [&](Session& session) {
      Warnings warnings;
      const c10::WarningUtils::WarningHandlerGuard heard(&warnings);
      const Strategy strategy{
          .kind = StrategyKind::fsdp, .prefetch = prefetch, .prefetch_bytes = bytes, .one_copy = false};
      Parallel model(
          session, [] { return ParNet(); }, ParallelOptions{.strategy = strategy});
      return warnings.text;
    });
  };
  CHECK_THAT(warned(500, 1)[0], Catch::Contains("no unit is gathered ahead: the strategy lets them have 500 bytes"));
  CHECK(warned(500, 1)[1].empty());  // one rank says it
  CHECK(warned(500, 0)[0].empty());
  CHECK(warned(2000, 1)[0].empty());
}
