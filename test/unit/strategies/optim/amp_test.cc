// GradScaler and Autocast, clipping and averages. The scales of a run beside torch's are in
// test/parity/optim_parity.py.
#include "dtrain/amp.h"

#include <limits>

#include "dtrain/ema.h"
#include "test/support/catch.h"
#include "test/unit/strategies/optim/shard_fixtures.h"

using namespace dtrain;
using namespace dtrain::test;
using Catch::Matchers::Contains;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The second of two ranks has this in place of what the first has.
SumOverRanks adding(double other) {
  return [other](const at::Tensor& tensor) { tensor.add_(other); };
}

ShardedOptimizerOptions plain_sgd() {
  ShardedOptimizerOptions options;
  options.algorithm = Sgd{.lr = 1};
  return options;
}

}  // namespace

TEST_CASE("amp: gradients are unscaled once, and a step with an infinite one is left out") {
  const ShardRun run = run_of({{"a", {3}}}, at::zeros({3}), 0, 3);
  ShardedOptimizer optimizer(plain_sgd(), {run});
  GradScaler scaler({.init_scale = 4, .growth_interval = 2});
  CHECK(scaler.scale(at::ones({})).item<float>() == 4);
  const std::vector<at::Tensor> gradients = {at::full({3}, 8.0)};
  scaler.unscale(gradients);
  CHECK(gradients[0][0].item<float>() == 2);
  CHECK_THROWS_WITH(scaler.unscale(gradients), Contains("twice"));
  CHECK(scaler.step(optimizer, gradients));
  CHECK(run.values[0].item<float>() == -2);
  CHECK_THROWS_WITH(scaler.step(optimizer, gradients), Contains("twice"));
  scaler.update();
  CHECK_THROWS_WITH(scaler.update(), Contains("before"));
  CHECK(scaler.state().growth_tracker == 1);
  CHECK_FALSE(scaler.step(optimizer, {torch::tensor({1.0F, kInfinity, 1.0F})}));
  scaler.update();
  CHECK(scaler.scale() == 2);
  CHECK(run.values[0].item<float>() == -2);
  for (int i = 0; i < 2; ++i) {
    CHECK(scaler.step(optimizer, {at::Tensor()}));
    scaler.update();
  }
  CHECK(scaler.scale() == 4);
  GradScaler other;
  other.load(scaler.state());
  CHECK(other.scale() == 4);
}

TEST_CASE("amp: an infinite gradient of another rank holds every rank back") {
  const ShardRun run = run_of({{"a", {3}}}, at::zeros({3}), 0, 3);
  ShardedOptimizer optimizer(plain_sgd(), {run});
  GradScaler scaler({.init_scale = 4}, adding(1));
  CHECK_FALSE(scaler.step(optimizer, {at::ones({3})}));
  CHECK(run.values[0].item<float>() == 0);
  scaler.update();
  CHECK(scaler.scale() == 2);
}

TEST_CASE("amp: a scaler that is off steps alone") {
  const ShardRun run = run_of({{"a", {3}}}, at::zeros({3}), 0, 3);
  ShardedOptimizer optimizer(plain_sgd(), {run});
  GradScaler scaler({.enabled = false});
  CHECK(scaler.scale(at::ones({})).item<float>() == 1);
  CHECK(scaler.step(optimizer, {at::ones({3})}));
  scaler.update();
  CHECK(run.values[0].item<float>() == -1);
  CHECK_THROWS_WITH(GradScaler({.growth_factor = 1}), Contains("growth_factor"));
  CHECK_THROWS_WITH(GradScaler({.init_scale = 0}), Contains("init_scale"));
}

TEST_CASE("amp: a guard of autocast holds within, and what was before holds after it") {
  const auto a = at::ones({2, 2});
  {
    const Autocast narrow(torch::kCPU, torch::kBFloat16);
    CHECK(at::mm(a, a).scalar_type() == torch::kBFloat16);
    {
      const Autocast off(torch::kCPU, torch::kBFloat16, false);
      CHECK(at::mm(a, a).scalar_type() == torch::kFloat);
    }
    CHECK(at::mm(a, a).scalar_type() == torch::kBFloat16);
  }
  CHECK(at::mm(a, a).scalar_type() == torch::kFloat);
}

TEST_CASE("clip: the norm is that over all gradients and ranks") {
  std::vector<at::Tensor> gradients = {torch::tensor({3.0F, 0.0F}), {}, torch::tensor({4.0}, at::kDouble)};
  CHECK(clip_by_global_norm(gradients, 10).item<double>() == Approx(5));
  CHECK(gradients[0][0].item<float>() == 3);  // not above the limit
  CHECK(clip_by_global_norm(gradients, 2.5).item<double>() == Approx(5));
  CHECK(gradients[0][0].item<float>() == Approx(1.5));
  CHECK(gradients[2][0].item<double>() == Approx(2));
  gradients = {at::full({2}, 3.0)};
  CHECK(clip_by_global_norm(gradients, 1, adding(46)).item<double>() == Approx(8));
  CHECK(gradients[0][0].item<float>() == Approx(3.0 / 8));
  CHECK(clip_by_global_norm({}, 1).item<double>() == 0);
  CHECK_THROWS_WITH(clip_by_global_norm({}, 0), Contains("above 0"));
}

TEST_CASE("clip: a gradient that was made wide has the same norm, however large it is") {
  torch::manual_seed(3);
  for (const std::int64_t elements : {1000, (1 << 20) + 1, (3 << 20) + 77}) {
    const at::Tensor narrow = torch::randn({elements}).to(at::kBFloat16);
    const auto norm = [](const at::Tensor& each) { return clip_by_global_norm({each}, 1e9).item<double>(); };
    CHECK(norm(narrow) == norm(narrow.to(at::kFloat)));
    CHECK(norm(narrow) == Approx(narrow.to(at::kDouble).norm().item<double>()).epsilon(1e-4));
  }
}

TEST_CASE("clip: a narrow type does not narrow its norm, and what is not finite stays so") {
  std::vector<at::Tensor> gradients = {at::full({3 << 20}, 0.25, at::kBFloat16)};
  CHECK(clip_by_global_norm(gradients, 1e9).item<double>() == Approx(0.25 * std::sqrt(3 << 20)).epsilon(1e-5));
  gradients = {torch::tensor({1.0F, kInfinity})};
  CHECK(clip_by_global_norm(gradients, 1).item<double>() == kInfinity);
  CHECK_FALSE(gradients[0].isfinite().all().item<bool>());
}

TEST_CASE("clip: by the largest value") {
  std::vector<at::Tensor> gradients = {torch::tensor({3.0F, -4.0F}), {}};
  const auto of_two = [](const at::Tensor& tensor) { tensor.clamp_min_(8); };
  CHECK(clip_by_largest(gradients, 2).item<double>() == 4);
  CHECK(gradients[0][1].item<float>() == Approx(-2));
  CHECK(clip_by_largest(gradients, 2, of_two).item<double>() == 8);
  CHECK(gradients[0][1].item<float>() == Approx(-0.5));
}

TEST_CASE("ema: averages follow the values, and swapping keeps both") {
  const auto size = size_of(small_model());
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const ShardRun run = run_of(small_model(), random_flat(size, 1, type), 0, size);
    Ema average({run}, 0.9);
    CHECK_THROWS_WITH(average.swap_in(), Contains("no average yet"));
    auto expected = run.values.to(at::kDouble, false, /*copy=*/true);
    average.update();
    for (int step = 0; step < 5; ++step) {
      run.values.copy_(gradient_of_step(size, step));
      expected = 0.9 * expected + 0.1 * run.values.to(at::kDouble);
      average.update();
    }
    CHECK(at::allclose(average.averages()[0].to(at::kDouble), expected, 1e-5, 1e-6));
    CHECK(average.updates() == 6);
    const auto before = run.values.clone();
    average.swap_in();
    CHECK(at::equal(run.values, average.averages()[0].to(type)));
    CHECK_THROWS_WITH(average.update(), Contains("swap_out()"));
    CHECK_THROWS_WITH(average.swap_in(), Contains("twice"));
    average.swap_out();
    CHECK(at::equal(run.values, before));
    CHECK_THROWS_WITH(average.swap_out(), Contains("without"));
  }
  CHECK_THROWS_WITH(Ema({}, 1), Contains("decay"));
}

TEST_CASE("amp: a scale may wait for several overflows, has a least value, or stays") {
  const ShardRun run = run_of({{"a", {3}}}, at::zeros({3}), 0, 3);
  ShardedOptimizer optimizer(plain_sgd(), {run});
  const auto overflow = [&](GradScaler& scaler) {
    CHECK_FALSE(scaler.step(optimizer, {at::full({3}, kInfinity)}));
    scaler.update();
    return scaler.scale();
  };
  GradScaler patient({.init_scale = 16, .growth_interval = 1, .hysteresis = 3, .min_scale = 4});
  CHECK(overflow(patient) == 16);
  CHECK(overflow(patient) == 16);
  CHECK(overflow(patient) == 8);
  CHECK(overflow(patient) == 4);
  CHECK(overflow(patient) == 4);
  patient.step(optimizer, {at::Tensor()});
  patient.update();
  CHECK(patient.scale() == 8);
  CHECK(overflow(patient) == 8);  // the count has begun again
  GradScaler fixed({.init_scale = 16, .growth_interval = 1, .dynamic = false});
  CHECK(overflow(fixed) == 16);
  CHECK(fixed.step(optimizer, {at::Tensor()}));
  fixed.update();
  CHECK(fixed.scale() == 16);
  CHECK_THROWS_WITH(GradScaler({.hysteresis = 0}), Contains("hysteresis"));
  CHECK_THROWS_WITH(GradScaler({.init_scale = 2, .min_scale = 4}), Contains("min_scale"));
}

TEST_CASE("amp: the text of a scaler is pinned, and another one goes on from it") {
  const ShardRun run = run_of({{"a", {3}}}, at::zeros({3}), 0, 3);
  ShardedOptimizer optimizer(plain_sgd(), {run});
  const GradScalerOptions options{.init_scale = 3, .growth_interval = 4, .hysteresis = 2};
  GradScaler scaler(options), other(options);
  const auto step = [&](GradScaler& each, float gradient) {
    each.step(optimizer, {at::full({3}, gradient)});
    each.update();
    return each.scale();
  };
  for (const float gradient : {kInfinity, 1.0F, 1.0F}) step(scaler, gradient);
  const std::string saved = scaler.save_into(R"({"step": 3})");
  CHECK(saved == R"({"grad_scaler":{"enabled":true,"growth_tracker":2,"overflows":1,"scale":3.0},"step":3})");
  scaler.unscale({at::ones({3})});
  CHECK_THROWS_WITH(scaler.save_into(), Contains("update()"));
  scaler.restore(saved);
  other.restore(saved);
  for (const float gradient : {1.0F, 1.0F, kInfinity, kInfinity, 1.0F, kInfinity})
    CHECK(step(other, gradient) == step(scaler, gradient));
  CHECK(scaler.scale() == 1.5);
  CHECK(other.save_into({}, "second") == scaler.save_into({}, "second"));
}

TEST_CASE("amp: a damaged text, and that of a scaler that was off, change nothing of a scaler") {
  GradScaler scaler({.init_scale = 8}), off({.enabled = false});
  const std::string fine = scaler.save_into();
  for (const char* text : {"", "{", R"({"grad_scaler": 1})", R"({"grad_scaler": {"scale": 4}})",
                           R"({"grad_scaler":{"enabled":true,"growth_tracker":0,"overflows":0,"scale":0}})",
                           R"({"grad_scaler":{"enabled":1,"growth_tracker":0,"overflows":0,"scale":4}})",
                           R"({"grad_scaler":{"enabled":true,"growth_tracker":0.5,"overflows":0,"scale":4}})",
                           R"({"grad_scaler":{"enabled":true,"growth_tracker":0,"overflows":0,"scale":"inf"}})",
                           R"({"grad_scaler":{"enabled":true,"growth_tracker":0,"overflows":0,"scale":4,"more":1}})"}) {
    INFO(text);
    CHECK_THROWS_WITH(scaler.restore(text), Contains("dtrain: GradScaler: the checkpoint's extra"));
    CHECK_THROWS_AS(off.restore(text), ConfigError);
  }
  CHECK_THROWS_WITH(scaler.restore(off.save_into()), Contains("not enabled"));
  CHECK_THROWS_AS(scaler.save_into("[1]"), ConfigError);
  CHECK(scaler.save_into() == fine);
  off.restore(fine);
  CHECK(off.scale() == 1);
}

TEST_CASE("amp: a scale grows after a shorter interval than that of the run before") {
  const ShardRun run = run_of({{"a", {3}}}, at::zeros({3}), 0, 3);
  ShardedOptimizer optimizer(plain_sgd(), {run});
  GradScaler scaler({.init_scale = 8, .growth_interval = 3});
  scaler.load({.scale = 8, .growth_tracker = 5});
  scaler.step(optimizer, {at::Tensor()});
  scaler.update();
  CHECK(scaler.scale() == 16);
}
