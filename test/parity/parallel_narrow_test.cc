// Gradients that stay in the type in which they were reduced: the numbers of those that are converted at once.
#include <fmt/format.h>

#include "dtrain/dtrain.h"
#include "test/parity/joined.h"
#include "test/parity/parallel_model.h"
#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

struct NarrowRecipe {
  Strategy strategy;
  OptimizerOptions algorithm;
  double clip = 0;  // 0: none
  bool clips_twice = false;
  int backwards = 1;   // each of them reduces
  bool looks = false;  // the program reads the gradients in between
};

// The bits of all parameters after some steps, and in which type the gradient lay before the last.
std::string trained(Session& session, const NarrowRecipe& recipe, bool wide) {
  torch::manual_seed(7);
  ParallelOptions options{.strategy = recipe.strategy};
  if (std::holds_alternative<Muon>(recipe.algorithm)) options.placement = owned_matrices;
  Parallel model(
      session, [] { return ParNet(); }, options);
  ShardedOptimizer optimizer = model.optimizer(recipe.algorithm);
  if (wide) (void)model.parameters();
  std::string said;
  for (int step = 0; step < 5; ++step) {
    model.zero_grad();
    for (int i = 0; i < recipe.backwards; ++i) {
      const Data data = batch_of(step, recipe.backwards * session.rank() + i);
      loss_of(model(data.words), data.classes).backward();
    }
    if (recipe.clip > 0) said = fmt::format("{:a} ", model.clip_grad_norm(recipe.clip).item<double>());
    if (recipe.clips_twice) said += fmt::format("{:a} ", model.clip_grad_norm(recipe.clip / 2).item<double>());
    if (recipe.looks) said += bits_of(model.gradients()) + " ";
    model.step(optimizer);
  }
  const auto type = model.core().runs().front().values.grad().scalar_type();
  for (const ShardRun& run : model.runs()) said += run.values.grad().defined() ? "narrow " : "";
  const auto full = model.full_parameters();
  for (const auto& each : model->parameters()) said += bits_of({each}) + " ";
  return said + c10::toString(type);
}

// With the same bits; and the types of the gradients.
void check_same(const NarrowRecipe& recipe, const std::string& narrow_type, int ranks = 2) {
  const auto run = [&](bool wide) {
    return on_ranks(ranks, [&](Session& session) { return trained(session, recipe, wide); });
  };
  const auto narrow = run(false), wide = run(true);
  for (std::size_t rank = 0; rank < narrow.size(); ++rank) {
    const auto cut = narrow[rank].rfind(' ');
    CHECK(narrow[rank].substr(cut + 1) == narrow_type);
    CHECK(wide[rank].substr(cut + 1) == "Float");
    CHECK_THAT(narrow[rank], !Catch::Contains("narrow"));
    CHECK(narrow[rank].substr(0, cut) == wide[rank].substr(0, cut));
  }
}

std::vector<Strategy> narrow_ways(Precision param = Precision::bfloat16) {
  using Kind = StrategyKind;
  return {{.kind = Kind::zero1, .param = param},
          {.kind = Kind::zero1, .param = param, .bucket_bytes = 500},
          {.kind = Kind::zero2, .param = param},
          {.kind = Kind::fsdp, .param = param},
          {.kind = Kind::fsdp, .param = param, .one_copy = false},
          {.kind = Kind::fsdp, .param = param, .deterministic = true}};
}

}  // namespace

TEST_CASE("narrow gradients: bfloat16 stays so, and gives the bits of a gradient in float32") {
  for (const Strategy& each : narrow_ways()) {
    INFO(name_of(each.kind));
    check_same({each, AdamW{.lr = 0.02}}, "BFloat16");
    check_same({each, AdamW{.lr = 0.02}, 0.05}, "BFloat16");
  }
  const Strategy hybrid{.kind = StrategyKind::fsdp, .param = Precision::bfloat16, .shard_size = 2};
  check_same({hybrid, AdamW{.lr = 0.02}, 0.05}, "BFloat16", 4);
  check_same({{.kind = StrategyKind::zero2, .param = Precision::float16}, AdamW{.lr = 0.02}, 0.05}, "Half");
}

TEST_CASE("narrow gradients: every optimizer applies the factor of clipping") {
  const Strategy fsdp{.kind = StrategyKind::fsdp, .param = Precision::bfloat16};
  const std::vector<OptimizerOptions> all{Sgd{.lr = 0.1, .momentum = 0.9}, Adam{.lr = 0.02}, Adagrad{.lr = 0.05},
                                          Lamb{.lr = 0.02}, Muon{.lr = 0.02}};
  for (const OptimizerOptions& each : all) {
    INFO(each.index());
    check_same({fsdp, each, 0.05}, "BFloat16");
  }
}

TEST_CASE("narrow gradients: whoever adds to them, clips again or looks at them has them in float32") {
  for (const Strategy& each : narrow_ways()) {
    INFO(name_of(each.kind));
    if (!each.deterministic) check_same({.strategy = each, .algorithm = AdamW{}, .backwards = 2}, "Float");
    check_same({.strategy = each, .algorithm = AdamW{}, .clip = 0.05, .clips_twice = true}, "Float");
    check_same({.strategy = each, .algorithm = AdamW{}, .clip = 0.05, .looks = true}, "Float");
  }
}

TEST_CASE("narrow gradients: a sum in a wider type, or values of a narrow one, are as ever") {
  const Strategy wide{.kind = StrategyKind::zero2, .param = Precision::bfloat16, .reduce = Precision::float32};
  check_same({wide, AdamW{.lr = 0.02}, 0.05}, "Float");
}
