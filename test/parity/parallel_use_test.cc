// Programs that use Parallel in other ways than the usual loop, rightly or wrongly.
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

constexpr StrategyKind kSharded[] = {StrategyKind::zero1, StrategyKind::zero2, StrategyKind::fsdp};

// What each of two ranks is told.
template <class Error = ConfigError>
void check_told(const std::function<void(Session&, StrategyKind)>& use, const std::string& part,
                const std::vector<StrategyKind>& kinds = {std::begin(kSharded), std::end(kSharded)}) {
  for (const StrategyKind kind : kinds) {
    for (const std::string& each :
         on_ranks(2, [&](Session& session) { return message_of<Error>([&] { use(session, kind); }); })) {
      INFO(name_of(kind) << ": " << each);
      CHECK_THAT(each, Catch::StartsWith("dtrain: ") && Catch::Contains(part));
    }
  }
}

void train_once(Parallel<ParNetImpl>& model) {
  const Data data = batch_of(0, 0);
  loss_of(model(data.words), data.classes).backward();
}

Parallel<ParNetImpl> net_of(Session& session, StrategyKind kind) {
  return {session, [] { return ParNet(); }, ParallelOptions{.strategy = Strategy{.kind = kind}}};
}

// It hands a tensor out by a member.
struct LeakyBlockImpl : torch::nn::Module {
  LeakyBlockImpl() : linear(register_module("linear", torch::nn::Linear(kWidth, kWidth))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    hidden = torch::tanh(linear(x));
    return linear(hidden);
  }
  torch::nn::Linear linear;
  torch::Tensor hidden;
};
DTRAIN_UNIT(LeakyBlock);
struct LeakyNetImpl : torch::nn::Module {
  LeakyNetImpl()
      : block(register_module("block", LeakyBlock())), head(register_module("head", torch::nn::Linear(kWidth, 2))) {}
  torch::Tensor forward(const torch::Tensor& x) { return head(block(x)); }
  LeakyBlock block;
  torch::nn::Linear head;
};

struct LostUnitImpl : torch::nn::Module {
  LostUnitImpl() : lost(kWidth), head(register_module("head", torch::nn::Linear(kWidth, 2))) {}
  torch::Tensor forward(const torch::Tensor& x) { return head(x); }
  ParBlock lost;
  torch::nn::Linear head;
};

struct LateValuesImpl : torch::nn::Module {
  LateValuesImpl() : block(register_module("block", ParBlock(kWidth))) {
    const torch::NoGradGuard no_grad;
    for (auto& each : parameters()) each.fill_(0.5);
  }
  torch::Tensor forward(const torch::Tensor& x) { return block(x); }
  ParBlock block;
};

}  // namespace

TEST_CASE("what a program does to parameters that Parallel has taken is an error with the parameter's name") {
  check_told(
      [](Session& session, StrategyKind kind) {
        auto model = net_of(session, kind);
        model->head->bias.set_requires_grad(false);
        train_once(model);
      },
      "parameter 'head.bias' got another requires_grad after Parallel took the model");
  check_told(
      [](Session& session, StrategyKind kind) {
        auto model = net_of(session, kind);
        {
          const auto full = model.full_parameters();
          model->to(at::kDouble);
        }
        train_once(model);
      },
      "got other memory, as to() and torch::load() do, after Parallel took the model");
  check_told<c10::Error>(
      [](Session& session, StrategyKind kind) {
        Parallel model(
            session, [] { return std::make_shared<LateValuesImpl>(); },
            ParallelOptions{.strategy = Strategy{.kind = kind}});
      },
      "give its parameters their first values in the unit's own constructor", {StrategyKind::fsdp});
}

TEST_CASE("a module that another Parallel has, a unit that is not registered, and a placement that is none") {
  check_told(
      [](Session& session, StrategyKind kind) {
        auto first = net_of(session, kind);
        const ParNet same(first->shared_from_this() ? std::dynamic_pointer_cast<ParNetImpl>(first->shared_from_this())
                                                    : nullptr);
        const Parallel second(
            session, [&] { return same; }, ParallelOptions{.strategy = Strategy{.kind = kind}});
      },
      "already belongs to another Parallel");
  check_told(
      [](Session& session, StrategyKind kind) {
        const Parallel model(
            session, [] { return std::make_shared<LostUnitImpl>(); },
            ParallelOptions{.strategy = Strategy{.kind = kind}});
      },
      "is no part of the module that it returned; register the unit", {StrategyKind::fsdp});
  CHECK(message_of<ConfigError>([] { Placement::blocks_of(0); }) ==
        "dtrain: Placement::blocks_of needs 1 row or more, and got 0");
}

TEST_CASE("keys of a strategy that do not fit the ranks or the model") {
  const auto check = [](const Strategy& strategy, const std::string& part) {
    for (const std::string& each : on_ranks(3, [&](Session& session) {
           return message_of<ConfigError>([&] {
             const Parallel model(
                 session, [] { return ParNet(); }, ParallelOptions{.strategy = strategy});
           });
         }))
      CHECK_THAT(each, Catch::Contains(part));
  };
  check({.kind = StrategyKind::fsdp, .reshard_size = 2},
        "dtrain: strategy: reshard_after_forward 2 does not divide the 3 ranks that share the model");
  check({.kind = StrategyKind::fsdp, .units = {"ParBlock", "Layer"}},
        "dtrain: strategy: units has 'Layer', and the model made no such unit. Its units: ParBlock");
}

TEST_CASE("a step at a wrong time, and a backward after the end, are errors that say so") {
  check_told<c10::Error>(
      [](Session& session, StrategyKind kind) {
        auto model = net_of(session, kind);
        train_once(model);
        torch::optim::SGD sgd(model.parameters(), 0.1);
        const auto full = model.full_parameters();
        model.step(sgd);
      },
      "while full_parameters() is alive");
  check_told<c10::Error>(
      [](Session& session, StrategyKind kind) {
        torch::Tensor loss;
        {
          auto model = net_of(session, kind);
          const Data data = batch_of(0, 0);
          loss = loss_of(model(data.words), data.classes);
        }
        loss.backward();
      },
      "after the end of its Parallel", {StrategyKind::fsdp});
  // As with one process: the values that the graph has saved are gone.
  for (const StrategyKind kind : kSharded) {
    for (const std::string& each : on_ranks(2, [&](Session& session) {
           return message_of<c10::Error>([&] {
             auto model = net_of(session, kind);
             torch::optim::SGD sgd(model.parameters(), 0.1);
             train_once(model);
             const Data data = batch_of(1, 0);
             torch::Tensor loss = loss_of(model(data.words), data.classes);
             model.step(sgd);
             loss.backward();
           });
         }))
      CHECK_THAT(each, Catch::Contains("modified by an inplace operation"));
  }
}

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15
TEST_CASE("a tensor that leaves a unit by a member, and takes backward into it, is an error and no crash") {
  for (const bool one_copy : {true, false}) {
    for (const std::string& each : on_ranks(2, [&](Session& session) {
           Parallel model(
               session, [] { return std::make_shared<LeakyNetImpl>(); },
               ParallelOptions{.strategy = Strategy{.kind = StrategyKind::fsdp, .one_copy = one_copy}});
           model(torch::ones({2, kWidth}, torch::requires_grad()));
           return message_of<c10::Error>([&] { model->block->hidden.sum().backward(); });
         })) {
      INFO(each);
      // With one copy the values are there.
      const bool refused = each.find("sharded here") != std::string::npos;
      CHECK(refused != one_copy);
    }
  }
}
#endif

TEST_CASE("mixed precision takes inputs as they are, gives back what is asked for, and leaves the caller's tensors") {
  for (const StrategyKind kind : kSharded) {
    for (const std::string& each : on_ranks(2, [&](Session& session) {
           Parallel model(
               session, [] { return std::make_shared<LeakyNetImpl>(); },
               ParallelOptions{.strategy =
                                   Strategy{.kind = kind, .param = Precision::bfloat16, .output = Precision::float32}});
           torch::Tensor x = torch::ones({2, kWidth});
           const torch::Tensor y = model(x);
           y.sum().backward();
           return fmt::format("{} {} {} {}", c10::toString(x.scalar_type()), c10::toString(y.scalar_type()),
                              c10::toString(model->block->hidden.scalar_type()),
                              c10::toString(model.parameters()[0].grad().scalar_type()));
         }))
      CHECK(each == "Float Float BFloat16 Float");
  }
}

TEST_CASE("a GradScaler has the gradients of a sharded model") {
  for (const Way& way : ways()) {
    const auto said = on_ranks(2, [&](Session& session) {
      Parallel model(
          session, [] { return ParNet(); }, ParallelOptions{.strategy = way.strategy});
      ShardedOptimizer optimizer = model.optimizer(Sgd{.lr = 0.1});
      GradScaler scaler({.init_scale = 8}, model.sum());
      const Data data = batch_of(0, 0);
      scaler.scale(loss_of(model(data.words), data.classes)).backward();
      bool stepped = false;
      model.step([&] { stepped = scaler.step(optimizer, model.gradients()); });
      // On one rank alone a gradient is not finite: no rank steps.
      model.zero_grad();
      torch::Tensor loss = loss_of(model(data.words), data.classes);
      scaler.update();
      (session.is_first() ? loss * std::numeric_limits<float>::infinity() : loss).backward();
      bool again = true;
      model.step([&] { again = scaler.step(optimizer, model.gradients()); });
      return fmt::format("{} {}", stepped, again);
    });
    INFO(way.name);
    for (const std::string& each : said) CHECK(each == "true false");
  }
}

TEST_CASE("an average of the parameters goes in and out by steps") {
  for (const Way& way : ways()) {
    for (const std::string& each : on_ranks(2, [&](Session& session) {
           torch::manual_seed(1);
           Parallel model(
               session, [] { return ParNet(); }, ParallelOptions{.strategy = way.strategy});
           torch::optim::SGD sgd(model.parameters(), 0.5);
           Ema average(model.runs(), 0.5);
           const Data data = batch_of(0, 0);
           const auto evaluate = [&] {
             const torch::NoGradGuard no_grad;
             return loss_of(model(data.words), data.classes).template item<float>();
           };
           for (int step = 0; step < 3; ++step) {
             model.zero_grad();
             loss_of(model(data.words), data.classes).backward();
             model.step(sgd);
             average.update();
           }
           const float last = evaluate();
           model.step([&] { average.swap_in(); });
           const float averaged = evaluate();
           model.step([&] { average.swap_out(); });
           return fmt::format("{} {}", averaged > last, evaluate() == last);
         })) {
      INFO(way.name);
      CHECK(each == "true true");
    }
  }
}
