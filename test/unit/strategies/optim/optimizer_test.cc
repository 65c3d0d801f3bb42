// What a ShardedOptimizer updates, how it is divided, and what is saved of it. That it updates as torch.optim does, is
// shown by test/parity/optim_parity.py.
#include "dtrain/optimizer.h"

#include <barrier>
#include <thread>

#include "strategies/optim/elementwise.h"
#include "test/support/catch.h"
#include "test/unit/strategies/optim/shard_fixtures.h"

using namespace dtrain;
using namespace dtrain::test;
using Catch::Matchers::Contains;

namespace {

ShardedOptimizerOptions with(const OptimizerOptions& algorithm) {
  ShardedOptimizerOptions options;
  options.algorithm = algorithm;
  return options;
}

double apart(const at::Tensor& one, const at::Tensor& other) {
  return (one.to(at::kDouble) - other.to(at::kDouble)).abs().max().item<double>();
}

// Adds the tensors of ranks that are threads, in the order of the ranks.
class Threads {
 public:
  explicit Threads(int ranks) : given_(static_cast<std::size_t>(ranks)), all_(ranks) {}
  SumOverRanks sum_of(int rank) {
    return [this, rank](const at::Tensor& tensor) {
      given_[static_cast<std::size_t>(rank)] = tensor.clone();
      all_.arrive_and_wait();
      at::Tensor total = at::zeros_like(tensor);
      for (const at::Tensor& one : given_) total += one;
      all_.arrive_and_wait();
      tensor.copy_(total);
    };
  }

 private:
  std::vector<at::Tensor> given_;
  std::barrier<> all_;
};

at::Tensor trained_by_lamb(int ranks, int steps) {
  const auto& model = small_model();
  const auto size = size_of(model);
  Threads threads(ranks);
  std::vector<at::Tensor> parts(static_cast<std::size_t>(ranks));
  std::vector<std::jthread> running;
  for (int rank = 0; rank < ranks; ++rank) {
    running.emplace_back([&, rank] {
      const auto begin = size * rank / ranks, end = size * (rank + 1) / ranks;
      const ShardRun run = run_of(model, random_flat(size, 1), begin, end);
      ShardedOptimizer optimizer(with(Lamb{.lr = 0.1, .weight_decay = 0.01}), {run}, threads.sum_of(rank));
      for (int step = 0; step < steps; ++step)
        optimizer.step({gradient_of_step(size, step).slice(0, begin, end).contiguous()});
      parts[static_cast<std::size_t>(rank)] = run.values;
    });
  }
  running.clear();
  return at::cat(parts);
}

// LAMB by its paper, on one parameter, in double precision.
at::Tensor lamb_by_the_paper(at::Tensor w, const std::vector<at::Tensor>& gradients, const Lamb& lamb) {
  auto m = at::zeros_like(w), v = at::zeros_like(w);
  for (std::size_t t = 1; t <= gradients.size(); ++t) {
    const auto& g = gradients[t - 1];
    m = lamb.betas.first * m + (1 - lamb.betas.first) * g;
    v = lamb.betas.second * v + (1 - lamb.betas.second) * g * g;
    const auto step = static_cast<double>(t);
    const auto r = (m / (1 - std::pow(lamb.betas.first, step))) /
                   ((v / (1 - std::pow(lamb.betas.second, step))).sqrt() + lamb.eps);
    const auto u = r + lamb.weight_decay * w;
    w = w - lamb.lr * (w.norm() / u.norm()) * u;
  }
  return w;
}

const std::vector<OptimizerOptions>& elementwise_algorithms() {
  static const std::vector<OptimizerOptions> all = {
      Sgd{.lr = 0.1},
      Sgd{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true},
      Adam{.lr = 0.01, .weight_decay = 0.01},
      AdamW{.lr = 0.01},
      Adagrad{.lr = 0.1, .lr_decay = 0.01, .initial_accumulator_value = 0.1},
  };
  return all;
}

}  // namespace

TEST_CASE("optimizer: any division into shards gives the same bits") {
  for (const OptimizerOptions& algorithm : elementwise_algorithms()) {
    CAPTURE(algorithm.index());
    const auto whole = trained(with(algorithm), small_model(), 1, 5);
    CHECK(apart(whole, random_flat(size_of(small_model()), 1)) > 1e-3);
    for (const int ranks : {2, 3, 7, 31}) CHECK(at::equal(whole, trained(with(algorithm), small_model(), ranks, 5)));
  }
}

TEST_CASE("optimizer: groups and state in bfloat16 do not depend on the division either") {
  auto options = with(AdamW{.lr = 0.01});
  options.groups = {{.names = {"bias"}, .lr_factor = 0.5}, {.dims_max = 1, .weight_decay = 0.0}};
  CHECK(at::equal(trained(options, small_model(), 1, 5), trained(options, small_model(), 5, 5)));
  options.state_dtype = at::kBFloat16;
  CHECK(at::equal(trained(options, small_model(), 1, 5), trained(options, small_model(), 5, 5)));
}

TEST_CASE("optimizer: groups scale the rate and replace the decay") {
  const std::vector<Named> model = {{"a.weight", {2, 2}}, {"a.bias", {2}}, {"norm.weight", {2}}};
  const ShardRun run = run_of(model, at::ones({8}), 0, 8);
  auto options = with(Sgd{.lr = 0.5, .weight_decay = 0.5});
  options.groups = {{.names = {"norm", "ln_"}, .lr_factor = 0.1}, {.dims_max = 1, .weight_decay = 0.0}};
  ShardedOptimizer optimizer(options, {run});
  CHECK(optimizer.lr() == 0.5);
  optimizer.set_lr(1);
  optimizer.step({at::full({8}, 0.25)});
  CHECK(at::allclose(run.values, torch::tensor({0.25, 0.25, 0.25, 0.25, 0.75, 0.75, 0.925, 0.925}, at::kFloat)));
  CHECK(optimizer.steps() == 1);
  CHECK_THROWS_WITH(optimizer.set_lr(-1), Contains("0 or more"));
}

TEST_CASE("optimizer: a run without a gradient stays as it is, and its bias correction with it") {
  const std::vector<Named> model = {{"a", {100}}};
  const auto start = random_flat(100, 1);
  const ShardRun one = run_of(model, start, 0, 100), other = run_of({{"b", {100}}}, start, 0, 100);
  ShardedOptimizer optimizer(with(Adam{.lr = 0.01}), {one, other});
  optimizer.step({gradient_of_step(100, 0), {}});
  CHECK(at::equal(other.values, start));
  optimizer.step({{}, gradient_of_step(100, 0)});
  CHECK(at::equal(other.values, one.values));  // each had one update
  CHECK(optimizer.steps() == 2);
  CHECK(optimizer.state()[0].step == 1);
  CHECK_FALSE(at::equal(other.values, start));
}

TEST_CASE("optimizer: state is saved from any division and loaded into another") {
  for (OptimizerOptions algorithm : elementwise_algorithms()) {
    CAPTURE(algorithm.index());
    const auto size = size_of(small_model());
    const auto whole = trained(with(algorithm), small_model(), 1, 6);
    std::vector<ShardState> saved;
    std::vector<at::Tensor> values;
    for (int rank = 0; rank < 3; ++rank) {  // three steps on three ranks
      const ShardRun run = run_of(small_model(), random_flat(size, 1), size * rank / 3, size * (rank + 1) / 3);
      ShardedOptimizer optimizer(with(algorithm), {run});
      for (int step = 0; step < 3; ++step)
        optimizer.step({gradient_of_step(size, step).slice(0, size * rank / 3, size * (rank + 1) / 3).contiguous()});
      for (ShardState state : optimizer.state()) {
        for (auto& [name, tensor] : state.tensors) tensor = tensor.clone();
        saved.push_back(std::move(state));
      }
      values.push_back(run.values);
    }
    std::vector<at::Tensor> parts;
    for (int rank = 0; rank < 2; ++rank) {  // and three on two
      const ShardRun run = run_of(small_model(), at::cat(values), size * rank / 2, size * (rank + 1) / 2);
      ShardedOptimizer optimizer(with(algorithm), {run});
      std::int64_t loaded = 0;
      for (const ShardState& state : saved) loaded += optimizer.load(state);
      CHECK(loaded == run.values.numel());
      CHECK(optimizer.steps() == 3);
      for (int step = 3; step < 6; ++step)
        optimizer.step({gradient_of_step(size, step).slice(0, size * rank / 2, size * (rank + 1) / 2).contiguous()});
      parts.push_back(run.values);
    }
    CHECK(at::equal(whole, at::cat(parts)));
  }
}

TEST_CASE("optimizer: shards with different numbers of updates may lie in one run") {
  const std::vector<Named> model = {{"a", {70}}, {"b", {70}}};
  const auto start = random_flat(140, 1), gradient = gradient_of_step(140, 0);
  const ShardRun run = run_of(model, start, 0, 140), alone = run_of({{"a", {70}}}, start, 0, 70);
  ShardedOptimizer optimizer(with(AdamW{}), {run}), other(with(AdamW{}), {alone});
  auto state = optimizer.state();
  state[0].tensors[0].second.fill_(0.5);
  state[0].tensors[1].second.fill_(0.25);
  ShardState saved = state[0];
  saved.step = 41;
  CHECK(optimizer.load(saved) == 70);
  CHECK(other.load(saved) == 70);
  optimizer.step({gradient});
  other.step({gradient.narrow(0, 0, 70)});
  CHECK(at::equal(run.values.narrow(0, 0, 70), alone.values));
  CHECK(optimizer.state()[0].step == 42);
  CHECK(optimizer.state()[1].step == 1);
  CHECK(optimizer.steps() == 42);
}

TEST_CASE("optimizer: gradients and values of narrower types") {
  const auto size = size_of(small_model());
  for (const OptimizerOptions& algorithm : elementwise_algorithms()) {
    CAPTURE(algorithm.index());
    const ShardRun run = run_of(small_model(), random_flat(size, 1), 0, size),
                   same = run_of(small_model(), random_flat(size, 1), 0, size);
    const ShardRun narrow = run_of(small_model(), random_flat(size, 1, at::kBFloat16), 0, size);
    auto options = with(algorithm);
    ShardedOptimizer optimizer(options, {run}), other(options, {same});
    const ShardRun scaled = run_of(small_model(), random_flat(size, 1), 0, size);
    ShardedOptimizer with_scale(options, {scaled});
    options.state_dtype = at::kFloat;
    ShardedOptimizer narrow_one(options, {narrow});
    for (int step = 0; step < 3; ++step) {
      const auto gradient = gradient_of_step(size, step).to(at::kBFloat16);
      optimizer.step({gradient});
      other.step({gradient.to(at::kFloat)});
      // Exact: a power of two.
      with_scale.step({gradient * 0.25}, {at::full({}, 4.0, at::kDouble)});
      narrow_one.step({gradient});
    }
    CHECK(at::equal(run.values, same.values));
    CHECK(at::equal(scaled.values, same.values));
    CHECK(apart(narrow.values, run.values) < 0.05);
    CHECK(apart(narrow.values, random_flat(size, 1, at::kBFloat16)) > 1e-3);
  }
}

TEST_CASE("optimizer: averages in bfloat16 follow small changes") {
  // The average of squares falls by a thousandth in a step: less than half of what bfloat16 can tell apart.
  const std::int64_t size = 1000;
  auto options = with(AdamW{.lr = 0});
  options.state_dtype = at::kBFloat16;
  ShardedOptimizer optimizer(options, {run_of({{"a", {size}}}, at::zeros({size}), 0, size)});
  optimizer.step({at::ones({size})});
  for (int step = 0; step < 1000; ++step) optimizer.step({at::zeros({size})});
  const auto squares = optimizer.state()[0].tensors[1].second;
  CHECK(squares.scalar_type() == at::kBFloat16);
  const double expected = 0.001 * std::pow(0.999, 1000);
  CHECK(squares.to(at::kDouble).mean().item<double>() == Approx(expected).epsilon(0.05));
}

TEST_CASE("optimizer: rounding at random goes to a neighbour, right on average, alike on all devices") {
  auto numbers = random_flat(100'000, 3) * 1000;
  numbers[7] = std::numeric_limits<float>::infinity();
  numbers[8] = -std::numeric_limits<float>::infinity();
  const auto rounded = at::empty(numbers.sizes(), at::kBFloat16);
  store_state(rounded, numbers, 42, 5);
  CHECK(at::equal(rounded.to(at::kFloat), rounded_by_aten(numbers, 42, 5)));
  const auto exact = at::full({100'000}, 1 + 1.0 / 512);  // a quarter of the way from 1 to its neighbour
  store_state(rounded, exact, 42, 5);
  CHECK(rounded.to(at::kDouble).mean().item<double>() == Approx(1 + 1.0 / 512).epsilon(1e-4));
  CHECK((rounded == 1).logical_or(rounded == 1 + 1.0 / 128).all().item<bool>());
  const auto part = at::empty({1000}, at::kBFloat16);
  store_state(part, exact.narrow(0, 0, 1000), 42, 5 + 2000);
  CHECK(at::equal(part, rounded.narrow(0, 2000, 1000)));
}

TEST_CASE("optimizer: LAMB is that of its paper, and sharded it uses whole parameters") {
  const Lamb lamb{.lr = 0.1, .weight_decay = 0.01};
  const auto size = size_of(small_model());
  const auto whole = trained_by_lamb(1, 4);
  std::int64_t begin = 0;
  for (const Named& named : small_model()) {
    std::vector<at::Tensor> gradients;
    for (int step = 0; step < 4; ++step)
      gradients.push_back(gradient_of_step(size, step).narrow(0, begin, size_of(named)).to(at::kDouble));
    const auto start = random_flat(size, 1).narrow(0, begin, size_of(named)).to(at::kDouble);
    CHECK(apart(lamb_by_the_paper(start, gradients, lamb), whole.narrow(0, begin, size_of(named))) < 1e-5);
    begin += size_of(named);
  }
  CHECK(apart(whole, trained_by_lamb(2, 4)) < 1e-5);
  CHECK(apart(whole, trained_by_lamb(5, 4)) < 1e-5);
}

TEST_CASE("optimizer: Muon's matrices may have any owner, and the rest any division") {
  const Muon muon{.lr = 0.02, .adamw_names = {"embedding"}};
  const std::vector<Named> model = {
      {"embedding.weight", {9, 7}}, {"up.weight", {64, 16}}, {"up.bias", {64}}, {"down.weight", {16, 64}}};
  const auto size = size_of(model);
  const auto whole = trained(with(muon), model, 1, 4);
  // Rank 0 has half of the embedding, all of `up` and half of its bias; rank 1 has the rest.
  at::Tensor together = at::zeros({size});
  const std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> ranges = {{{0, 30}, {63, 1119}},
                                                                                  {{30, 63}, {1119, size}}};
  for (const auto& of_rank : ranges) {
    std::vector<ShardRun> runs;
    for (const auto& [begin, end] : of_rank) runs.push_back(run_of(model, random_flat(size, 1), begin, end));
    ShardedOptimizer optimizer(with(muon), runs);
    for (int step = 0; step < 4; ++step) {
      std::vector<at::Tensor> gradients;
      for (const auto& [begin, end] : of_rank)
        gradients.push_back(gradient_of_step(size, step).slice(0, begin, end).contiguous());
      optimizer.step(gradients);
    }
    for (std::size_t i = 0; i < runs.size(); ++i)
      together.slice(0, of_rank[i].first, of_rank[i].second).copy_(runs[i].values);
  }
  CHECK(at::equal(whole, together));
  CHECK_THROWS_WITH(trained(with(muon), model, 3, 1), Contains("'up.weight'") && Contains("\"owned\""));
}

TEST_CASE("optimizer: set_lr scales the rate of Muon's AdamW too") {
  const std::vector<Named> model = {{"bias", {4}}};
  const ShardRun run = run_of(model, at::zeros({4}), 0, 4);
  ShardedOptimizer optimizer(with(Muon{.lr = 0.02, .adamw = {.lr = 0.001}}), {run});
  optimizer.set_lr(0.01);
  optimizer.step({at::ones({4})});
  CHECK(at::allclose(run.values, at::full({4}, -0.0005)));
}

TEST_CASE("optimizer: what makes no sense is named") {
  const auto made = [](const OptimizerOptions& algorithm) { ShardedOptimizer(with(algorithm), {}); };
  CHECK_THROWS_WITH(made(Sgd{.lr = -1}), Contains("Sgd: lr=-1"));
  CHECK_THROWS_WITH(made(Sgd{.nesterov = true}), Contains("nesterov"));
  CHECK_THROWS_WITH(made(Adam{.betas = {1, 0.9}}), Contains("betas.first"));
  CHECK_THROWS_WITH(made(Muon{.ns_steps = 0}), Contains("ns_steps"));
  CHECK_THROWS_WITH(made(Muon{.lr = 0}), Contains("Muon: lr"));
  auto options = with(Adam{});
  options.state_dtype = at::kInt;
  CHECK_THROWS_WITH(ShardedOptimizer(options, {}), Contains("state_dtype"));

  const auto flat = at::zeros({10});
  ShardRun run{flat, {{"a", {5}, 0, flat.narrow(0, 0, 5)}, {"b", {5}, 0, flat.narrow(0, 4, 5)}}};
  CHECK_THROWS_WITH(ShardedOptimizer(with(Adam{}), {run}), Contains("'b' does not lie behind"));
  run.shards.pop_back();
  CHECK_THROWS_WITH(ShardedOptimizer(with(Adam{}), {run}), Contains("its shards have 5"));
  run.shards[0].begin = 1;
  CHECK_THROWS_WITH(ShardedOptimizer(with(Adam{}), {run}), Contains("shape [5]"));
  CHECK_THROWS_WITH(ShardedOptimizer(with(Adam{}), {{at::zeros({2}, at::kInt), {}}}), Contains("Int"));

  ShardedOptimizer optimizer(with(Adam{}), {{flat, {{"a", {10}, 0, flat}}}});
  CHECK_THROWS_WITH(optimizer.step({}), Contains("0 gradients for 1 runs"));
  CHECK_THROWS_WITH(optimizer.step({at::zeros({9})}), Contains("shape [9]"));
  CHECK_THROWS_WITH(optimizer.step({at::zeros({10})}, {{}, {}}), Contains("2 scales for 1 runs"));
  CHECK_THROWS_WITH(optimizer.step({at::zeros({10})}, {at::ones({1})}),
                    Contains("scale 0 of the optimizer's step() has shape [1]"));
  CHECK_THROWS_WITH(optimizer.step({at::zeros({10})}, {at::empty({}, at::TensorOptions(at::kMeta))}),
                    Contains("scale 0 of the optimizer's step() is on meta, and run 0 on cpu"));
  CHECK_THROWS_WITH(optimizer.load({"a", 0, 10, 1, {{"sum", at::zeros({10})}}}), Contains("[exp_avg, exp_avg_sq]"));
  CHECK_THROWS_WITH(optimizer.load({"a", 0, 9, 1, {{"exp_avg", at::zeros({10})}}}), Contains("count is 9"));
  CHECK(optimizer.load({"other", 0, 10, 1, {}}) == 0);
}

TEST_CASE("optimizer: a step with state of the values' type allocates nothing of a run's size") {
  const std::int64_t size = 1 << 20;
  for (const OptimizerOptions& algorithm : elementwise_algorithms()) {
    const auto gradient = at::ones({size - 3});
    ShardedOptimizer optimizer(with(algorithm), {run_of({{"a", {size - 3}}}, at::zeros({size - 3}), 0, size - 3)});
    optimizer.step({gradient});
    struct Largest : c10::MemoryReportingInfoBase {
      std::int64_t bytes = 0;
      void reportMemoryUsage(void*, std::int64_t size_of_it, std::size_t, std::size_t, c10::Device) override {
        bytes = std::max(bytes, size_of_it);
      }
      bool memoryProfilingEnabled() const override { return true; }
    };
    const auto largest = std::make_shared<Largest>();
    {
      const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, largest);
      optimizer.step({gradient});
    }
    CHECK(largest->bytes < 64 * 1024);
    CHECK(largest->bytes > 0);
  }
}
