// Programs that do what plain torch allows, in ways that a sharded model must follow; or that must be told why not.
// Each program runs alone, and on two ranks with the same data under each strategy.
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

// A model in one process, with the calls of a Parallel.
template <class Module>
struct Alone {
  template <class Build>
  explicit Alone(Build build) : module(build()), sgd(module->parameters(), torch::optim::SGDOptions(0.1)) {}
  template <class... Args>
  auto operator()(Args&&... args) {
    return module->forward(std::forward<Args>(args)...);
  }
  Module* operator->() { return module.get(); }
  void zero_grad() { module->zero_grad(); }
  void step() { sgd.step(); }
  int no_sync() { return 0; }
  int full_parameters() { return 0; }
  double clip(double norm) { return torch::nn::utils::clip_grad_norm_(module->parameters(), norm); }
  std::shared_ptr<Module> module;
  torch::optim::SGD sgd;
};

template <class Module>
struct Spread {
  template <class Build>
  Spread(Session& session, Build build, const Strategy& strategy)
      : model(session, build, ParallelOptions{.strategy = strategy}),
        sgd(model.parameters(), torch::optim::SGDOptions(0.1)) {}
  template <class... Args>
  auto operator()(Args&&... args) {
    return model(std::forward<Args>(args)...);
  }
  Module* operator->() { return &model.module(); }
  void zero_grad() { model.zero_grad(); }
  void step() { model.step(sgd); }
  auto no_sync() { return model.no_sync(); }
  auto full_parameters() { return model.full_parameters(); }
  double clip(double norm) { return model.clip_grad_norm(norm).template item<double>(); }
  Parallel<Module> model;
  torch::optim::SGD sgd;
};

template <class Model>
std::string values_of(Model& model) {
  const auto full = model.full_parameters();
  (void)full;
  std::string said;
  for (const auto& each : model->named_parameters())
    said += fmt::format("{:.17g} {:.17g} ", each.value().square().sum().template item<double>(),
                        each.value().sum().template item<double>());
  return said;
}

// What `program` leaves is the same under each of these strategies as alone.
template <class Build, class Program>
void check_like_alone(const std::vector<Way>& some, Build build, Program program) {
  using Module = typename std::invoke_result_t<Build>::element_type;
  const auto outcomes = run_ranks(1, [&](int) {
    torch::set_num_threads(1);
    const InDouble in_double;
    torch::manual_seed(0);
    Alone<Module> model(build);
    program(model);
    return values_of(model);
  });
  require_all_returned(outcomes);
  for (const Way& way : some) {
    INFO(way.name);
    for (const std::string& each : on_ranks(2, [&](Session& session) {
           const InDouble in_double;
           torch::manual_seed(session.rank());
           Spread<Module> model(session, build, way.strategy);
           program(model);
           return values_of(model);
         }))
      check_close(each, outcomes[0].said);
  }
}

std::vector<Way> sharded_ways() {
  std::vector<Way> found;
  for (const Way& each : ways()) {
    if (each.strategy.kind != StrategyKind::ddp) found.push_back(each);
  }
  return found;
}

std::shared_ptr<ParNetImpl> build_net() { return std::make_shared<ParNetImpl>(); }

template <class Model>
torch::Tensor loss_on(Model& model, int step) {
  const Data data = batch_of(step, 0);
  return loss_of(model(data.words), data.classes);
}

}  // namespace

TEST_CASE("units whose parameters are frozen, wholly or in part, after they were made") {
  const auto build = [] {
    auto net = build_net();
    for (auto& each : net->blocks[0]->parameters()) each.set_requires_grad(false);
    net->blocks[1]->named_parameters()["wide.weight"].set_requires_grad(false);
    for (auto& each : net->embed->parameters()) each.set_requires_grad(false);
    return net;
  };
  check_like_alone(ways(), build, [](auto& model) {
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      loss_on(model, step).backward();
      model.step();
    }
  });
}

TEST_CASE("a frozen model behind a part that learns") {
  struct AdapterImpl : torch::nn::Module {
    AdapterImpl() {
      input = register_module("input", torch::nn::Linear(kWidth, kWidth));
      for (int i = 0; i < 2; ++i) blocks->push_back(ParBlock(kWidth));
      register_module("blocks", blocks);
      for (auto& each : blocks->parameters()) each.set_requires_grad(false);
    }
    torch::Tensor forward(const torch::Tensor& x) { return blocks->forward(input(x)); }
    torch::nn::Linear input{nullptr};
    torch::nn::Sequential blocks;
  };
  check_like_alone(
      ways(), [] { return std::make_shared<AdapterImpl>(); },
      [](auto& model) {
        for (int step = 0; step < 3; ++step) {
          model.zero_grad();
          torch::manual_seed(step);
          model(torch::randn({4, kWidth})).square().mean().backward();
          model.step();
        }
      });
}

TEST_CASE("parameters are looked at before, between and after a forward and its backward") {
  check_like_alone(ways(), build_net, [](auto& model) {
    values_of(model);
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      torch::Tensor loss = loss_on(model, step);
      {
        const auto outer = model.full_parameters();
        const auto inner = model.full_parameters();
        (void)outer, (void)inner;
        const torch::NoGradGuard no_grad;
        model->forward(batch_of(9, 0).words);
      }
      loss.backward();
      values_of(model);
      model.step();
    }
  });
}

TEST_CASE("one forward with two backwards, and two forwards before two backwards") {
  check_like_alone(sharded_ways(), build_net, [](auto& model) {
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      torch::Tensor loss = loss_on(model, step);
      loss.backward({}, /*retain_graph=*/true);
      loss.backward();
      torch::Tensor first = loss_on(model, 10 + step), second = loss_on(model, 20 + step);
      first.backward();
      second.backward();
      model.step();
    }
  });
}

namespace {

// Some of its units take no part in a forward that skips.
struct SkipImpl : torch::nn::Module {
  SkipImpl() : net(register_module("net", ParNet())) {}
  torch::Tensor forward(const torch::Tensor& words, bool skips) {
    torch::Tensor x = net->embed(words).detach();
    if (!skips) x = net->blocks->forward(net->embed(words));
    return net->head(x);
  }
  ParNet net;
};

}  // namespace

TEST_CASE("a backward that does not come to some parameters leaves their gradients as they are") {
  const auto train = [](auto& model, bool quiet) {
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      const Data data = batch_of(step, 0);
      const auto learn = [&](bool skips) { loss_of(model(data.words, skips), data.classes).backward(); };
      if (quiet) {
        const auto no_sync = model.no_sync();
        (void)no_sync;
        learn(false);
      } else {
        learn(false);
      }
      learn(true);
      model.step();
    }
  };
  std::vector<Way> some = sharded_ways();
  some.push_back({"ddp", {.kind = StrategyKind::ddp, .find_unused_parameters = true}});
  for (const bool quiet : {false, true})
    check_like_alone(
        some, [] { return std::make_shared<SkipImpl>(); }, [&](auto& model) { train(model, quiet); });
}

TEST_CASE("zero_grad of torch's optimizer clears gradients, by resetting them or by zeros") {
  for (const bool to_none : {true, false}) {
    check_like_alone(ways(), build_net, [&](auto& model) {
      for (int step = 0; step < 4; ++step) {
        model.sgd.zero_grad(to_none);
        loss_on(model, step).backward();
        if (step % 2 == 0) loss_on(model, 10 + step).backward();
        model.step();
      }
    });
  }
}

TEST_CASE("gradients are accumulated over steps, as in torch") {
  check_like_alone(ways(), build_net, [](auto& model) {
    for (int step = 0; step < 3; ++step) {
      loss_on(model, step).backward();
      model.step();
    }
  });
}

TEST_CASE("no_sync that ends before the backward counts all the same") {
  check_like_alone(ways(), build_net, [](auto& model) {
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      torch::Tensor loss;
      {
        const auto quiet = model.no_sync();
        (void)quiet;
        loss = loss_on(model, step);
      }
      loss.backward();
      loss_on(model, 10 + step).backward();
      model.step();
    }
  });
}

namespace {

// Returns a view of what it computed, and changes its input in place.
struct ViewBlockImpl : torch::nn::Module {
  ViewBlockImpl() : linear(register_module("linear", torch::nn::Linear(kWidth, kWidth))) {}
  torch::Tensor forward(torch::Tensor x) {
    x.mul_(0.5);
    return (torch::tanh(linear(x).view({-1})) * 2).view({-1, kWidth}).narrow(0, 0, x.size(0));
  }
  torch::nn::Linear linear;
};
DTRAIN_UNIT(ViewBlock);

struct ViewNetImpl : torch::nn::Module {
  ViewNetImpl() : first(register_module("first", ViewBlock())), second(register_module("second", ViewBlock())) {}
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = first(x.clone());
    y.add_(1);
    y.view({-1}).mul_(1.5);
    y = second(y);
    y.narrow(0, 0, 1).zero_();
    return y;
  }
  ViewBlock first, second;
};

}  // namespace

TEST_CASE("units that return views, and tensors that are changed in place before and after them") {
  check_like_alone(
      ways(), [] { return std::make_shared<ViewNetImpl>(); },
      [](auto& model) {
        for (int step = 0; step < 8; ++step) {
          model.zero_grad();
          torch::manual_seed(step);
          model(torch::randn({4, kWidth})).square().mean().backward();
          model.step();
        }
      });
}

namespace {

struct Unknown {
  torch::Tensor of;
};
struct SecretBlockImpl : torch::nn::Module {
  SecretBlockImpl() : linear(register_module("linear", torch::nn::Linear(kWidth, kWidth))) {}
  Unknown forward(const torch::Tensor& x) { return {torch::tanh(linear(x)) * x}; }
  torch::nn::Linear linear;
};
DTRAIN_UNIT(SecretBlock);
struct SecretNetImpl : torch::nn::Module {
  SecretNetImpl()
      : block(register_module("block", SecretBlock())), head(register_module("head", torch::nn::Linear(kWidth, 2))) {}
  Unknown forward(const torch::Tensor& x) { return {head(block(block(x).of).of)}; }
  SecretBlock block;
  torch::nn::Linear head;
};

}  // namespace

TEST_CASE("a unit that returns a type in which no tensor is found stays whole until backward has ended") {
  check_like_alone(
      ways(), [] { return std::make_shared<SecretNetImpl>(); },
      [](auto& model) {
        for (int step = 0; step < 6; ++step) {
          model.zero_grad();
          torch::manual_seed(step);
          torch::Tensor loss = model(torch::randn({4, kWidth})).of.square().mean();
          {
            const torch::NoGradGuard no_grad;
            model(torch::randn({4, kWidth}));
          }
          values_of(model);
          loss.backward();
          model.step();
        }
      });
}

TEST_CASE("clipping counts tied parameters once") {
  struct TiedImpl : torch::nn::Module {
    TiedImpl() {
      first = register_module("first", torch::nn::Linear(kWidth, kWidth));
      second = register_module("second", torch::nn::Linear(kWidth, kWidth));
      second->weight = second->register_parameter("weight2", first->weight);
    }
    torch::Tensor forward(const torch::Tensor& x) { return second(torch::tanh(first(x))); }
    torch::nn::Linear first{nullptr}, second{nullptr};
  };
  const auto outcomes = on_ranks(2, [](Session& session) {
    std::string said;
    for (const StrategyKind kind : {StrategyKind::ddp, StrategyKind::fsdp}) {
      torch::manual_seed(0);
      Parallel model(
          session,
          [] {
            auto module = std::make_shared<TiedImpl>();
            module->second->named_parameters(false)["weight"].set_requires_grad(false);
            return module;
          },
          ParallelOptions{.strategy = Strategy{.kind = kind}});
      model(torch::ones({2, kWidth})).square().mean().backward();
      said += fmt::format("{:.4f} ", model.clip_grad_norm(0.5).item<float>());
    }
    return said;
  });
  const auto numbers = numbers_in(outcomes[0]);
  REQUIRE(numbers.size() == 2);
  CHECK(numbers[0] > 0);
  CHECK(numbers[0] == numbers[1]);
}

TEST_CASE("a backward that fails, and then another one, which is reduced") {
  check_like_alone(sharded_ways(), build_net, [](auto& model) {
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      torch::Tensor fails = loss_on(model, step), works = loss_on(model, 10 + step);
      // In the middle: some of the model's hooks have been called.
      torch::Tensor broken = fails * 1.0;
      broken.register_hook([](const torch::Tensor&) -> torch::Tensor { throw std::runtime_error("no"); });
      torch::Tensor both = broken + works * 0;
      CHECK(message_of<std::exception>([&] { both.backward({}, /*retain_graph=*/true); }) != "no error");
      model.zero_grad();
      works.backward();
      model.step();
    }
  });
}

namespace {

struct PickyBlockImpl : torch::nn::Module {
  PickyBlockImpl() : linear(register_module("linear", torch::nn::Linear(kWidth, kWidth))) {}
  torch::Tensor forward(const torch::Tensor& x, bool fails) {
    if (fails) throw std::runtime_error("no");
    return torch::tanh(linear(x));
  }
  torch::nn::Linear linear;
};
DTRAIN_UNIT(PickyBlock);
struct PickyNetImpl : torch::nn::Module {
  PickyNetImpl()
      : block(register_module("block", PickyBlock())), head(register_module("head", torch::nn::Linear(kWidth, 2))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = head->weight.sum() * x;
    try {
      y = block(y, true);
    } catch (const std::runtime_error& /*error*/) {
      y = block(y, false);
    }
    return head(y);
  }
  PickyBlock block;
  torch::nn::Linear head;
};

}  // namespace

TEST_CASE("a model may catch what a unit throws") {
  check_like_alone(
      ways(), [] { return std::make_shared<PickyNetImpl>(); },
      [](auto& model) {
        for (int step = 0; step < 6; ++step) {
          model.zero_grad();
          torch::manual_seed(step);
          model(torch::randn({4, kWidth})).square().mean().backward();
          model.step();
        }
      });
}

TEST_CASE("parameters of two types in one unit") {
  struct TwoTypesImpl : torch::nn::Module {
    TwoTypesImpl() {
      wide = register_module("wide", torch::nn::Linear(kWidth, kWidth));
      scale = register_parameter("scale", torch::ones({kWidth}, at::kFloat));
    }
    torch::Tensor forward(const torch::Tensor& x) { return torch::tanh(wide(x)) * scale; }
    torch::nn::Linear wide{nullptr};
    torch::Tensor scale;
  };
  struct HolderImpl : torch::nn::Module {
    HolderImpl() { unit = register_module("unit", std::make_shared<Hooked<TwoTypesImpl>>()); }
    torch::Tensor forward(const torch::Tensor& x) { return unit->forward(unit->forward(x)); }
    std::shared_ptr<Hooked<TwoTypesImpl>> unit;
  };
  const auto train = [](auto& model) {
    for (int step = 0; step < 8; ++step) {
      model.zero_grad();
      torch::manual_seed(step);
      model(torch::randn({4, kWidth})).square().mean().backward();
      model.step();
    }
  };
  std::vector<Way> some = sharded_ways();
  check_like_alone(
      some, [] { return std::make_shared<HolderImpl>(); }, train);
}
