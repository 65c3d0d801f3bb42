// Everything at once under every strategy, against plain LibTorch in one process on the whole batch: accumulated
// gradients, clipping, tied weights, blocks that run again in backward; in float64, in float32, and in bfloat16 with a
// loss scale. docs/training/sharding.md has the bounds.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dtrain/dtrain.h"
#include "test/parity/joined.h"
#include "test/parity/parallel_model.h"
#include "test/support/catch.h"
#include "test/unit/strategies/ranks.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

constexpr int kAllSteps = 50, kAllRanks = 4, kAccumulated = 2, kOverflows = 20, kGrowth = 8;
constexpr double kAllRate = 0.01, kAllClip = 0.5, kAllScale = 1024, kTooLarge = 1e38;

enum class Numbers { doubles, floats, narrow };

struct AllNetImpl : torch::nn::Module {
  explicit AllNetImpl(bool saves_memory) : again(saves_memory) {
    embed = register_module("embed", torch::nn::Embedding(11, kWidth));
    for (int i = 0; i < 3; ++i) blocks.push_back(register_module("block" + std::to_string(i), ParBlock(kWidth)));
  }
  torch::Tensor forward(const torch::Tensor& words) {
    torch::Tensor x = embed(words);
    for (ParBlock& block : blocks) x = again ? recompute(block, x) : block(x);
    return torch::matmul(x, embed->weight.t());  // tied
  }
  bool again;
  torch::nn::Embedding embed{nullptr};
  std::vector<ParBlock> blocks;
};
TORCH_MODULE(AllNet);

struct AllTyped {
  explicit AllTyped(Numbers numbers) {
    if (numbers == Numbers::doubles) torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
  }
  ~AllTyped() { torch::set_default_dtype(caffe2::TypeMeta::Make<float>()); }
  AllTyped(const AllTyped&) = delete;
  AllTyped& operator=(const AllTyped&) = delete;
};

Data whole_batch(int step) {
  const Data a = batch_of(step, 0), b = batch_of(step, 1);
  return {torch::cat({a.words, b.words}), torch::cat({a.classes, b.classes})};
}

Data piece_of(const Data& all, int piece, int pieces) {
  const std::int64_t count = all.words.size(0) / pieces;
  return {all.words.narrow(0, piece * count, count), all.classes.narrow(0, piece * count, count)};
}

template <class Forward>
torch::Tensor all_loss(Numbers numbers, const Data& data, const Forward& forward) {
  const Autocast autocast(torch::kCPU, torch::kBFloat16, numbers == Numbers::narrow);
  const torch::Tensor scores = forward(data.words);
  return loss_of(scores.to(numbers == Numbers::doubles ? torch::kDouble : torch::kFloat), data.classes);
}

std::string elements_of(torch::nn::Module& module) {
  std::string said;
  for (const auto& each : module.named_parameters()) {
    const torch::Tensor flat = each.value().detach().to(torch::kDouble).reshape({-1});
    for (std::int64_t i = 0; i < flat.numel(); ++i) said += fmt::format("{:.17g} ", flat[i].item<double>());
  }
  return said;
}

// Nothing of dtrain but Autocast. `pieces`: the batch has a forward for each.
std::string all_alone(Numbers numbers, int pieces) {
  const AllTyped typed(numbers);
  torch::manual_seed(0);
  AllNet net(false);
  torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(kAllRate));
  double scale = numbers == Numbers::narrow ? kAllScale : 1;
  int finite_steps = 0, skipped = 0;
  std::string said;
  for (int step = 0; step < kAllSteps; ++step) {
    net->zero_grad();
    const Data all = whole_batch(step);
    double mean = 0;
    for (int piece = 0; piece < pieces; ++piece) {
      const torch::Tensor loss =
          all_loss(numbers, piece_of(all, piece, pieces), [&](const torch::Tensor& words) { return net(words); }) /
          pieces;
      mean += loss.item<double>();
      const bool overflows = numbers == Numbers::narrow && step == kOverflows && piece == pieces - 1;
      (loss * scale * (overflows ? kTooLarge : 1)).backward();
    }
    said += fmt::format("{:.17g} ", mean);
    bool finite = true;
    for (const torch::Tensor& each : net->parameters()) {
      each.mutable_grad().div_(scale);
      finite &= each.grad().isfinite().all().item<bool>();
    }
    torch::nn::utils::clip_grad_norm_(net->parameters(), kAllClip);
    if (finite) optimizer.step();
    skipped += finite ? 0 : 1;
    if (numbers != Numbers::narrow) continue;
    finite_steps = finite ? finite_steps + 1 : 0;
    if (!finite) scale *= 0.5;
    if (finite_steps == kGrowth) {
      scale *= 2;
      finite_steps = 0;
    }
  }
  return said + fmt::format("{} {} ", skipped, scale) + elements_of(*net);
}

std::string all_together(Session& session, Numbers numbers, const Strategy& strategy) {
  const AllTyped typed(numbers);
  torch::manual_seed(session.rank());
  Parallel model(
      session, [] { return AllNet(true); }, ParallelOptions{.strategy = strategy});
  ShardedOptimizer optimizer = model.optimizer(AdamW{.lr = kAllRate});
  GradScaler scaler({.init_scale = kAllScale, .growth_interval = kGrowth, .enabled = numbers == Numbers::narrow},
                    model.sum());
  const int pieces = kAccumulated * session.world_size();
  int skipped = 0;
  std::string said;
  for (int step = 0; step < kAllSteps; ++step) {
    model.zero_grad();
    const Data all = whole_batch(step);
    torch::Tensor mean = torch::zeros({1}, torch::kDouble);
    for (int micro = 0; micro < kAccumulated; ++micro) {
      const int piece = session.rank() * kAccumulated + micro;
      const auto learn = [&] {
        const torch::Tensor loss =
            all_loss(numbers, piece_of(all, piece, pieces), [&](const torch::Tensor& words) { return model(words); }) /
            kAccumulated;
        mean += loss.detach().to(torch::kDouble);
        const bool overflows = numbers == Numbers::narrow && step == kOverflows && piece == pieces - 1;
        (scaler.scale(loss) * (overflows ? kTooLarge : 1)).backward();
      };
      if (micro + 1 < kAccumulated) {
        const auto quiet = model.no_sync();
        learn();
      } else {
        learn();
      }
    }
    session.all_reduce(mean, c10d::ReduceOp::AVG);
    said += fmt::format("{:.17g} ", mean.item<double>());
    scaler.unscale(model.gradients());
    model.clip_grad_norm(kAllClip);
    model.step([&] { skipped += scaler.step(optimizer, model.gradients()) ? 0 : 1; });
    scaler.update();
  }
  const auto full = model.full_parameters();
  return said + fmt::format("{} {} ", skipped, numbers == Numbers::narrow ? scaler.scale() : 1.0) +
         elements_of(model.module());
}

std::string all_alone_in_child(Numbers numbers, int pieces) {
  const auto outcomes = run_ranks(1, [&](int) {
    torch::set_num_threads(1);
    return all_alone(numbers, pieces);
  });
  require_all_returned(outcomes);
  return outcomes[0].said;
}

std::vector<Way> all_ways() {
  return each_strategy({{"hybrid", {.kind = StrategyKind::fsdp, .one_copy = false, .shard_size = 2}}});
}

struct Furthest {
  double loss = 0, parameter = 0;
};

Furthest furthest(const std::string& said, const std::string& expected) {
  const auto a = numbers_in(said), b = numbers_in(expected);
  REQUIRE(a.size() == b.size());
  REQUIRE(a.size() > kAllSteps + 500);
  CHECK(a[kAllSteps] == b[kAllSteps]);          // the steps that were skipped
  CHECK(a[kAllSteps + 1] == b[kAllSteps + 1]);  // the loss scale
  Furthest found;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double apart = std::abs(a[i] - b[i]) / std::max(1.0, std::abs(b[i]));
    double& worst = i < kAllSteps ? found.loss : found.parameter;
    worst = std::isnan(apart) ? HUGE_VAL : std::max(worst, apart);
  }
  return found;
}

// What one process does: a forward for each piece of the batch, or one for the whole of it.
struct Bound {
  int pieces;
  double loss, parameter;
};

void check_all(Numbers numbers, const std::vector<Bound>& bounds) {
  std::vector<std::string> expected;
  for (const Bound& bound : bounds) {
    expected.push_back(all_alone_in_child(numbers, bound.pieces));
    const auto losses = numbers_in(expected.back());
    CHECK(losses[kAllSteps - 1] < losses[0]);
    CHECK(losses[kAllSteps] == (numbers == Numbers::narrow ? 1 : 0));
  }
  for (const Way& way : all_ways()) {
    INFO(way.name);
    const auto said =
        on_ranks(kAllRanks, [&](Session& session) { return all_together(session, numbers, way.strategy); });
    for (const std::string& each : said) CHECK(each == said[0]);
    for (std::size_t i = 0; i < bounds.size(); ++i) {
      INFO("one process, pieces of the batch: " << bounds[i].pieces);
      const auto [loss, parameter] = furthest(said[0], expected[i]);
      CHECK(loss <= bounds[i].loss);
      CHECK(parameter <= bounds[i].parameter);
    }
  }
}

}  // namespace

TEST_CASE("all at once: every strategy has the float64 numbers of one process on the whole batch") {
  check_all(Numbers::doubles, {{.pieces = 1, .loss = 1e-9, .parameter = 1e-9}});
}

TEST_CASE("all at once in float32") { check_all(Numbers::floats, {{.pieces = 1, .loss = 1e-5, .parameter = 1e-5}}); }

// Gradients of weights are rounded to bfloat16 once for each forward.
TEST_CASE("all at once in bfloat16, with a step that overflows on one rank and is skipped on all") {
  check_all(Numbers::narrow, {{.pieces = kAccumulated * kAllRanks, .loss = 1e-3, .parameter = 1e-3},
                              {.pieces = 1, .loss = 2e-2, .parameter = 2e-2}});
}
