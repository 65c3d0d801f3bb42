// recompute() with Ddp and with Parallel under each strategy: the parameters after training are those of the same
// training without it, to the bit.
#include "dtrain/recompute.h"

#include <fmt/format.h>

#include "dtrain/dtrain.h"
#include "test/parity/joined.h"
#include "test/parity/ways.h"
#include "test/support/catch.h"

using namespace dtrain;
using dtrain::test::each_strategy, dtrain::test::Way;
using dtrain::test::on_ranks;
using torch::Tensor;

namespace {

constexpr std::int64_t kRecWidth = 6;

enum class Where { nowhere, in_units, around_units, around_all };

struct RecUnitImpl : torch::nn::Module {
  explicit RecUnitImpl(bool within) : inside(within) {
    wide = register_module("wide", torch::nn::Linear(kRecWidth, 3 * kRecWidth));
    narrow = register_module("narrow", torch::nn::Linear(3 * kRecWidth, kRecWidth));
    dropout = register_module("dropout", torch::nn::Dropout(0.25));
  }
  Tensor forward(const Tensor& x) {
    const auto part = [this](const Tensor& y) { return narrow(dropout(torch::gelu(wide(y)))); };
    return x + (inside ? recompute(part, x) : part(x));
  }
  bool inside;
  torch::nn::Linear wide{nullptr}, narrow{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
DTRAIN_UNIT(RecUnit);

// With a head, backward begins outside of what is run again; without one, it begins there.
struct RecNetImpl : torch::nn::Module {
  RecNetImpl(Where place, bool head) : where(place) {
    embed = register_module("embed", torch::nn::Embedding(11, kRecWidth));
    for (int i = 0; i < 3; ++i)
      units.push_back(register_module("unit" + std::to_string(i), RecUnit(place == Where::in_units)));
    if (head) last = register_module("last", torch::nn::Linear(kRecWidth, kRecWidth));
  }
  Tensor forward(const Tensor& words) {
    const auto all = [this](const Tensor& x) {
      Tensor y = x;
      for (RecUnit& unit : units) y = where == Where::around_units ? recompute(unit, y) : unit(y);
      return y;
    };
    const Tensor x = embed(words);
    const Tensor y = where == Where::around_all ? recompute(all, x) : all(x);
    return last ? last(y) : y;
  }
  Where where;
  torch::nn::Embedding embed{nullptr};
  std::vector<RecUnit> units;
  torch::nn::Linear last{nullptr};
};
TORCH_MODULE(RecNet);

struct RecInDouble {
  RecInDouble() { torch::set_default_dtype(caffe2::TypeMeta::Make<double>()); }
  ~RecInDouble() { torch::set_default_dtype(caffe2::TypeMeta::Make<float>()); }
  RecInDouble(const RecInDouble&) = delete;
  RecInDouble& operator=(const RecInDouble&) = delete;
};

std::string values_of(torch::nn::Module& module) {
  std::string said;
  for (const auto& each : module.named_parameters())
    said += fmt::format("{} {:.17g} {:.17g}\n", each.key(), each.value().square().sum().item<double>(),
                        each.value().sum().item<double>());
  return said;
}

struct RecRecipe {
  Strategy strategy{};
  bool head = true;
  int micro = 1;
  bool sync_each = false;
};

std::string trained(Session& session, const RecRecipe& recipe, Where where) {
  const RecInDouble in_double;
  torch::manual_seed(1);
  Parallel model(
      session, [&] { return RecNet(where, recipe.head); }, ParallelOptions{.strategy = recipe.strategy});
  torch::optim::AdamW optimizer(model.parameters(), torch::optim::AdamWOptions(0.01));
  for (int step = 0; step < 8; ++step) {
    model.zero_grad();
    for (int micro = 0; micro < recipe.micro; ++micro) {
      torch::manual_seed(1000 * step + 10 * micro + session.rank());
      const auto learn = [&] { model(torch::randint(11, {4})).pow(2).sum().backward(); };
      if (!recipe.sync_each && micro + 1 < recipe.micro) {
        const auto quiet = model.no_sync();
        learn();
      } else {
        learn();
      }
    }
    model.clip_grad_norm(1.0);
    model.step(optimizer);
    // An evaluation runs no function again.
    const torch::NoGradGuard no_grad;
    model(torch::arange(4));
  }
  const auto full = model.full_parameters();
  return values_of(model.module());
}

std::vector<Way> rec_ways() {
  using Kind = StrategyKind;
  return each_strategy({{"fsdp, copies, kept", {.kind = Kind::fsdp, .reshard_after_forward = false, .one_copy = false}},
                        {"fsdp, copies, no prefetch", {.kind = Kind::fsdp, .prefetch = 0, .one_copy = false}},
                        {"fsdp, copies, two sets", {.kind = Kind::fsdp, .one_copy = false, .shard_size = 1}}});
}

}  // namespace

namespace {

void check_recompute(const Way& way, RecRecipe recipe) {
  recipe.strategy = way.strategy;
  const auto plain = on_ranks(2, [&](Session& session) { return trained(session, recipe, Where::nowhere); });
  for (const Where where : {Where::in_units, Where::around_units, Where::around_all}) {
    INFO(way.name << ", head " << recipe.head << ", " << recipe.micro << " backwards, place "
                  << static_cast<int>(where));
    CHECK(on_ranks(2, [&](Session& session) { return trained(session, recipe, where); }) == plain);
  }
}

const std::vector<RecRecipe> kWithoutHead = {{.head = false}, {.head = false, .micro = 3, .sync_each = true}};

}  // namespace

TEST_CASE("recompute in units, around units and around all of them, under every strategy") {
  for (const Way& way : rec_ways()) {
    for (const RecRecipe& recipe : std::vector<RecRecipe>{{}, {.micro = 3}}) check_recompute(way, recipe);
  }
}

TEST_CASE("recompute where backward begins in what is run again") {
  for (const Way& way : rec_ways()) {
    for (const RecRecipe& recipe : kWithoutHead) check_recompute(way, recipe);
  }
}

TEST_CASE("recompute in a Ddp whose weights are used twice needs static_graph") {
  const auto train = [](Session& session, bool again, bool static_graph) {
    const RecInDouble in_double;
    torch::manual_seed(2);
    const auto layer = std::make_shared<torch::nn::LinearImpl>(4, 4);
    struct Twice : torch::nn::Module {
      Twice(std::shared_ptr<torch::nn::LinearImpl> inner, bool repeats) : layer(std::move(inner)), repeated(repeats) {
        register_module("layer", layer);
      }
      Tensor forward(const Tensor& x) {
        const auto part = [this](const Tensor& y) { return torch::tanh(layer->forward(y)); };
        return repeated ? recompute(part, recompute(part, x)) : part(part(x));
      }
      std::shared_ptr<torch::nn::LinearImpl> layer;
      bool repeated;
    };
    Ddp<Twice> model(session, std::make_shared<Twice>(layer, again), {.static_graph = static_graph});
    torch::optim::SGD sgd(layer->parameters(), 0.1);
    for (int step = 0; step < 5; ++step) {
      torch::manual_seed(10 * step + session.rank());
      model.zero_grad();
      model(torch::randn({3, 4})).pow(2).sum().backward();
      sgd.step();
    }
    return values_of(*layer);
  };
  const auto plain = on_ranks(2, [&](Session& session) { return train(session, false, true); });
  CHECK(on_ranks(2, [&](Session& session) { return train(session, true, true); }) == plain);
  for (const std::string& each : on_ranks(
           2, [&](Session& session) { return test::message_of<std::exception>([&] { train(session, true, false); }); }))
    CHECK_THAT(each, Catch::Contains("came twice after one forward"));
}
