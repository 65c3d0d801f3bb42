// One model under every strategy, against the same training in one process.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>

#include "dtrain/dtrain.h"
#include "test/parity/joined.h"
#include "test/support/catch.h"
#include "test/support/temp_folder.h"
#include "test/unit/strategies/ranks.h"

using namespace dtrain;
using dtrain::test::on_ranks;

namespace {

constexpr std::int64_t kBatch = 12, kWidth = 6, kClasses = 5;

struct ParBlockImpl : torch::nn::Module {
  explicit ParBlockImpl(std::int64_t width)
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        wide(register_module("wide", torch::nn::Linear(width, 3 * width))),
        narrow(register_module("narrow", torch::nn::Linear(3 * width, width))) {}
  torch::Tensor forward(const torch::Tensor& x) { return x + narrow(torch::tanh(wide(norm(x)))); }
  torch::nn::LayerNorm norm;
  torch::nn::Linear wide, narrow;
};
DTRAIN_UNIT(ParBlock);

struct ParNetImpl : torch::nn::Module {
  ParNetImpl() {
    embed = register_module("embed", torch::nn::Embedding(11, kWidth));
    for (int i = 0; i < 3; ++i) blocks->push_back(ParBlock(kWidth));
    register_module("blocks", blocks);
    head = register_module("head", torch::nn::Linear(kWidth, kClasses));
    calls = register_buffer("calls", torch::zeros({1}));
  }
  torch::Tensor forward(const torch::Tensor& words) {
    torch::Tensor x = blocks->forward(embed(words));
    return head(x);
  }
  torch::nn::Embedding embed{nullptr};
  torch::nn::Sequential blocks;
  torch::nn::Linear head{nullptr};
  torch::Tensor calls;
};
TORCH_MODULE(ParNet);

// Blocks are built in double, as they are sharded before a to() of the whole net.
struct InDouble {
  InDouble() { torch::set_default_dtype(caffe2::TypeMeta::Make<double>()); }
  ~InDouble() { torch::set_default_dtype(caffe2::TypeMeta::Make<float>()); }
  InDouble(const InDouble&) = delete;
  InDouble& operator=(const InDouble&) = delete;
};

struct Data {
  torch::Tensor words, classes;
};
Data batch_of(int step, int micro) {
  torch::manual_seed(100 * step + micro);
  return {torch::randint(11, {kBatch}), torch::randint(kClasses, {kBatch})};
}

struct Recipe {
  int steps = 50;
  int micro = 1;
  bool sync_each = false;
  double clip = 0;
};

torch::Tensor loss_of(const torch::Tensor& output, const torch::Tensor& classes) {
  return torch::nn::functional::cross_entropy(output, classes);
}

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

std::vector<double> numbers_in(const std::string& text) {
  std::vector<double> found;
  std::istringstream words(text);
  for (double each = 0; words >> each;) found.push_back(each);
  return found;
}

void check_close(const std::string& said, const std::string& expected) {
  const auto a = numbers_in(said), b = numbers_in(expected);
  INFO(said);
  INFO(expected);
  REQUIRE(a.size() == b.size());
  REQUIRE(a.size() > 20);
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::abs(a[i] - b[i]) / std::max(1.0, std::abs(b[i])));
  CHECK(worst < 1e-9);
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

struct Way {
  const char* name;
  Strategy strategy;
};

std::vector<Way> ways() {
  using Kind = StrategyKind;
  return {
      {"ddp", {.kind = Kind::ddp}},
      {"zero1", {.kind = Kind::zero1}},
      {"zero1, small buckets", {.kind = Kind::zero1, .bucket_bytes = 500}},
      {"zero2", {.kind = Kind::zero2}},
      {"zero2, small buckets", {.kind = Kind::zero2, .bucket_bytes = 500}},
      {"fsdp", {.kind = Kind::fsdp}},
      {"fsdp, copies", {.kind = Kind::fsdp, .one_copy = false}},
      {"fsdp, copies, kept", {.kind = Kind::fsdp, .reshard_after_forward = false, .prefetch = 2, .one_copy = false}},
      {"fsdp, copies, no prefetch", {.kind = Kind::fsdp, .prefetch = 0, .one_copy = false}},
      {"fsdp, one unit", {.kind = Kind::fsdp, .unit_elements = 1000000}}};
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

TEST_CASE("a parameter outside of its unit is an error with its name, and training goes on") {
  const auto said = on_ranks(2, [](Session& session) {
    Parallel model(
        session, [] { return ParNet(); }, ParallelOptions{.strategy = Strategy{.kind = StrategyKind::fsdp}});
    std::string errors;
    const auto parameters = model->named_parameters();
    const torch::Tensor wide = parameters["blocks.1.wide.weight"], bias = parameters["head.bias"];
    for (const auto& use : std::vector<std::function<void()>>{
             [&] { (wide + 1).sum(); }, [&] { torch::matmul(wide, wide.t()); }, [&] { bias.mul_(2); },
             [&] {
               model->head->forward(torch::zeros({1, kWidth}));
             }}) {
      errors += test::message_of<c10::Error>(use) + "\n";
    }
    const Data data = batch_of(0, 0);
    loss_of(model(data.words), data.classes).backward();
    const auto full = model.full_parameters();
    errors += fmt::format("{}", wide.sum().item<float>() != 0);
    return errors;
  });
  for (const std::string& each : said) {
    INFO(each);
    CHECK_THAT(each, Catch::Contains("parameter 'blocks.1.wide.weight' is sharded here"));
    CHECK_THAT(each, Catch::Contains("parameter 'head.bias' is sharded here"));
    CHECK_THAT(each, !Catch::Contains("no error"));
    CHECK_THAT(each, Catch::EndsWith("true"));
  }
}

TEST_CASE("what each rank keeps is what the strategy says") {
  // Elements of parameters, gradients, and the optimizer's two states.
  const auto kept = [](const Strategy& strategy, int ranks) {
    const auto said = on_ranks(ranks, [&](Session& session) {
      Parallel model(
          session, [] { return ParNet(); }, ParallelOptions{.strategy = strategy});
      const Data data = batch_of(0, 0);
      loss_of(model(data.words), data.classes).backward();
      std::int64_t values = 0, gradients = 0;
      for (const torch::Tensor& each : model.parameters()) {
        values += each.numel();
        gradients += each.grad().numel();
      }
      std::int64_t whole = 0;
      for (const torch::Tensor& each : model->parameters()) whole += each.numel();
      return fmt::format("{} {} {}", values, gradients, whole);
    });
    std::int64_t values = 0, gradients = 0, whole = 0;
    for (const std::string& each : said) {
      const auto numbers = numbers_in(each);
      REQUIRE(numbers.size() == 3);
      values += static_cast<std::int64_t>(numbers[0]);
      gradients += static_cast<std::int64_t>(numbers[1]);
      whole = static_cast<std::int64_t>(numbers[2]);
    }
    CHECK(values == gradients);
    return std::pair(values, whole);
  };
  for (const StrategyKind kind : {StrategyKind::zero1, StrategyKind::zero2, StrategyKind::fsdp}) {
    const auto [values, whole] = kept({.kind = kind}, 3);
    CHECK(values == whole);  // each element has one rank
  }
  const auto [values, whole] = kept({.kind = StrategyKind::ddp}, 3);
  CHECK(values == 3 * whole);
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

TEST_CASE("ranks that build different models, and a shard_size that does not fit, are errors on every rank") {
  for (const StrategyKind kind : {StrategyKind::zero2, StrategyKind::fsdp}) {
    for (const std::string& each : on_ranks(2, [&](Session& session) {
           return test::message_of<DivergedError>([&] {
             Parallel model(
                 session, [&] { return torch::nn::Linear(3, 3 + session.rank()); },
                 ParallelOptions{.strategy = Strategy{.kind = kind}});
           });
         }))
      CHECK_THAT(each, Catch::StartsWith("dtrain: "));
  }
  for (const std::string& each : on_ranks(3, [&](Session& session) {
         return test::message_of<ConfigError>([&] {
           Parallel model(
               session, [&] { return torch::nn::Linear(3, 3); },
               ParallelOptions{.strategy = Strategy{.kind = StrategyKind::fsdp, .shard_size = 2}});
         });
       }))
    CHECK(each ==
          "dtrain: strategy: shard_size 2 does not divide the 3 ranks; each set of ranks that shares a model has so "
          "many");
}

TEST_CASE("an evaluation in the middle, and a forward that throws, leave the model as it was") {
  for (const Way& way : ways()) {
    for (const std::string& each : on_ranks(2, [&](Session& session) {
           torch::manual_seed(3);
           Parallel model(
               session, [] { return ParNet(); }, ParallelOptions{.strategy = way.strategy});
           torch::optim::SGD sgd(model.parameters(), 0.1);
           const Data data = batch_of(1, 0);
           const auto evaluate = [&] {
             const torch::NoGradGuard no_grad;
             return model(data.words).sum().template item<float>();
           };
           const float before = evaluate();
           const std::string error = test::message_of<c10::Error>([&] {
             const torch::NoGradGuard no_grad;
             model(torch::full({1}, 99));
           });
           const float same = evaluate();
           loss_of(model(data.words), data.classes).backward();
           evaluate();
           model(data.words);  // with gradients, and nobody goes back
           model.step(sgd);
           const float after = evaluate();
           const float learning = model(data.words).sum().template item<float>();
           if (learning != after) return fmt::format("{} is not {}", learning, after);
           return fmt::format("{} {} {}", before == same, before != after, error.empty() || error == "no error");
         })) {
      INFO(way.name);
      CHECK(each == "true true false");
    }
  }
}

namespace {

// Trains for `steps` more, saves, and says what the parameters are.
std::string steps_with_checkpoints(Session& session, const Strategy& strategy, const std::string& folder, int steps) {
  const InDouble in_double;
  torch::manual_seed(session.rank());
  Parallel model(
      session, [] { return ParNet(); }, ParallelOptions{.strategy = strategy});
  ShardedOptimizer optimizer = model.optimizer(
      ShardedOptimizerOptions{.algorithm = AdamW{.lr = 0.01}, .groups = {{.dims_max = 1, .weight_decay = 0.0}}});
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
  const auto full = model.full_parameters();
  std::string said;
  for (const auto& each : model->named_parameters())
    said += fmt::format("{:.17g} ", each.value().square().sum().item<double>());
  return said + (loaded ? loaded->extra : "") + " 0 0 0 0";
}

}  // namespace

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
    const auto owned = [](const std::string&, const torch::Tensor& parameter) {
      return parameter.dim() == 2 ? Placement::owned() : Placement{};
    };
    Parallel model(
        session, [] { return ParNet(); }, ParallelOptions{.strategy = strategy, .placement = owned});
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
