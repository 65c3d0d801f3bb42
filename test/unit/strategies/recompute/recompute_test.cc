// recompute() alone; with Ddp and Parallel it is in test/parity/recompute_test.cc.
#include "dtrain/recompute.h"

#include <ATen/autocast_mode.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/torch.h>

#include <map>

#include "dtrain/amp.h"
#include "strategies/torch/backward_end.h"
#include "test/support/catch.h"

using namespace dtrain;
using Catch::Matchers::Contains;
using torch::Tensor;

namespace {

const auto kDouble = torch::TensorOptions().dtype(torch::kDouble);

struct RecBlockImpl : torch::nn::Module {
  explicit RecBlockImpl(std::int64_t width, double dropped = 0.3) {
    wide = register_module("wide", torch::nn::Linear(width, 4 * width));
    narrow = register_module("narrow", torch::nn::Linear(4 * width, width));
    dropout = register_module("dropout", torch::nn::Dropout(dropped));
    to(torch::kDouble);
  }
  Tensor forward(const Tensor& x) { return x + narrow(dropout(torch::gelu(wide(x)))); }
  torch::nn::Linear wide{nullptr}, narrow{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(RecBlock);

std::vector<RecBlock> blocks_of(int depth, std::int64_t width) {
  torch::manual_seed(1);
  std::vector<RecBlock> blocks;
  for (int i = 0; i < depth; ++i) blocks.emplace_back(width);
  return blocks;
}

bool same(const Tensor& a, const Tensor& b) { return a.defined() == b.defined() && (!a.defined() || a.equal(b)); }

// Takes the gradients of the parameters away.
std::vector<Tensor> gradients_of(const std::vector<RecBlock>& blocks) {
  std::vector<Tensor> found;
  for (const RecBlock& block : blocks) {
    for (Tensor& each : block->parameters()) {
      found.push_back(each.grad());
      each.mutable_grad().reset();
    }
  }
  return found;
}

bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](const Tensor& x, const Tensor& y) { return same(x, y); });
}

// The most bytes that were allocated at one time while it lives.
class PeakOfMemory final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*memory*/, std::int64_t bytes, std::size_t /*all*/, std::size_t /*reserved*/,
                         c10::Device /*device*/) override {
    now_ += bytes;
    peak_ = std::max(peak_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t now() const { return now_; }
  std::int64_t peak() const { return peak_; }

 private:
  std::int64_t now_ = 0, peak_ = 0;
};

}  // namespace

TEST_CASE("recompute: results, gradients and random numbers are those of a plain forward, to the bit") {
  std::vector<RecBlock> blocks = blocks_of(4, 8);
  const Tensor input = torch::randn({5, 8}, kDouble);
  const auto train = [&](bool again, bool needs) {
    torch::manual_seed(2);
    Tensor x = input.clone().set_requires_grad(needs), y = x;
    for (RecBlock& block : blocks) y = again ? recompute(block, y) : block(y);
    CHECK(y.requires_grad());
    const Tensor drawn_in_between = torch::rand({3});
    (y * y).sum().backward();
    return std::tuple(y.detach(), x.grad(), gradients_of(blocks), drawn_in_between, torch::rand({3}));
  };
  for (const bool needs : {true, false}) {
    const auto [y, dx, gradients, between, after] = train(false, needs);
    const auto [y2, dx2, gradients2, between2, after2] = train(true, needs);
    CHECK(same(y, y2));
    CHECK(same(dx, dx2));
    CHECK(dx2.defined() == needs);
    CHECK(same(gradients, gradients2));
    CHECK(same(between, between2));
    CHECK(same(after, after2));
  }
}

TEST_CASE("recompute: several arguments and results, of all the types that are known") {
  using Results = std::tuple<std::vector<Tensor>, std::optional<Tensor>, std::map<std::string, Tensor>, Tensor, int>;
  const auto function = [](const std::vector<Tensor>& in, const std::optional<Tensor>& mask, double scale,
                           const Tensor& missing) -> Results {
    CHECK_FALSE(missing.defined());
    const Tensor product = in[0] * in[1] * scale;
    return {{product, in[0].exp()}, product.sin(), {{"sum", (product * *mask).sum()}}, product.argmax(0), 7};
  };
  const Tensor mask = torch::tensor({1, 0, 1});
  const auto run = [&](bool again) {
    Tensor a = torch::arange(3, kDouble).set_requires_grad(true), b = torch::tensor({0.5, 2.0, 3.0}, kDouble);
    std::vector<Tensor> in{a, b};
    const Results results = again ? recompute(function, in, std::optional<Tensor>(mask), 0.25, Tensor())
                                  : function(in, mask, 0.25, Tensor());
    const auto& [list, optional, map, index, number] = results;
    CHECK(number == 7);
    CHECK_FALSE(index.requires_grad());
    CHECK(in[0].requires_grad());  // the caller's arguments stay what they are
    // One of the results takes no part.
    (list[0].sum() + optional->sum() * map.at("sum")).backward();
    CHECK_FALSE(b.grad().defined());
    return std::vector<Tensor>{a.grad(), list[1].detach(), index};
  };
  CHECK(same(run(false), run(true)));
}

TEST_CASE("recompute: activations of one part at a time are in memory") {
  constexpr int kDepth = 8;
  constexpr std::int64_t kWidth = 64, kRows = 256;
  std::vector<RecBlock> blocks = blocks_of(kDepth, kWidth);
  for (RecBlock& block : blocks) {
    for (Tensor& each : block->parameters()) each.mutable_grad() = torch::zeros_like(each);
  }
  const Tensor x = torch::randn({kRows, kWidth}, kDouble);
  const auto measure = [&](bool again) {
    const auto memory = std::make_shared<PeakOfMemory>();
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, memory);
    Tensor y = x;
    for (RecBlock& block : blocks) y = again ? recompute(block, y) : block(y);
    const std::int64_t kept = memory->now();
    y.sum().backward();
    return std::pair(kept, memory->peak());
  };
  const auto [kept, peak] = measure(false);
  const auto [kept_less, peak_less] = measure(true);
  constexpr std::int64_t kStream = kRows * kWidth * 8;
  INFO(kept << " " << peak << " " << kept_less << " " << peak_less);
  // Of each block: its input, and 5 kB of random state.
  CHECK(kept_less < kDepth * (kStream + 8192) + 8192);
  CHECK(kept > 5 * kept_less);
  CHECK(peak_less < kept_less + (peak / kDepth) * 2);
  CHECK(3 * peak_less < peak);
}

TEST_CASE("recompute: calls within calls") {
  std::vector<RecBlock> blocks = blocks_of(4, 4);
  const Tensor input = torch::randn({3, 4}, kDouble);
  int runs = 0;
  const auto one = [&](RecBlock& block, const Tensor& x, bool again) {
    const auto counted = [&runs, &block](const Tensor& y) {
      ++runs;
      return block(y);
    };
    return again ? recompute(counted, x) : counted(x);
  };
  const auto run = [&](bool again) {
    torch::manual_seed(5);
    Tensor x = input.clone().set_requires_grad(true);
    const auto all = [&](const Tensor& y) {
      Tensor z = y;
      for (RecBlock& block : blocks) z = one(block, z, again);
      return z;
    };
    (again ? recompute(all, x) : all(x)).pow(3).sum().backward();
    std::vector<Tensor> found = gradients_of(blocks);
    found.push_back(x.grad());
    return found;
  };
  const std::vector<Tensor> plain = run(false);
  CHECK(std::exchange(runs, 0) == 4);
  CHECK(same(plain, run(true)));
  CHECK(runs == 12);  // in forward, in the outer repetition, in their own
}

TEST_CASE("recompute: what is called at the end of a backward waits for the outermost one") {
  Tensor x = torch::ones({2}, kDouble).set_requires_grad(true),
         weight = torch::ones({2}, kDouble).set_requires_grad(true);
  std::vector<std::string> events;
  weight.register_hook([&](const Tensor& /*gradient*/) {
    events.push_back("weight");
    at_end_of_backward([&] { events.push_back("end"); });
  });
  const Tensor before = x * 1;
  before.register_hook([&](const Tensor& /*gradient*/) { events.push_back("before"); });
  const auto inner = [&](const Tensor& y) { return y * weight; };
  recompute([&](const Tensor& y) { return recompute(inner, y); }, before).sum().backward();
  CHECK(events == std::vector<std::string>{"weight", "before", "end"});
  events.clear();
  (weight * 2).sum().backward();
  CHECK(events == std::vector<std::string>{"weight", "end"});
}

TEST_CASE("recompute: a graph that is kept is gone through twice, another one is not") {
  std::vector<RecBlock> blocks = blocks_of(1, 4);
  torch::manual_seed(9);
  Tensor x = torch::randn({3, 4}, kDouble).set_requires_grad(true);
  const auto held = std::make_shared<int>(0);
  const auto function = [held, block = blocks[0]](const Tensor& y) mutable { return block(y); };
  const Tensor loss = recompute(function, x).sum();
  loss.backward({}, /*retain_graph=*/true);
  const Tensor once = x.grad().clone();
  CHECK(held.use_count() > 2);
  loss.backward();
  CHECK(same(x.grad(), 2 * once));
  CHECK(held.use_count() == 2);  // the graph lets go of what it repeats
  CHECK_THROWS_WITH(loss.backward(), Contains("second time"));
}

TEST_CASE("recompute: without gradients it is a call") {
  int runs = 0;
  const auto function = [&](const Tensor& x) {
    ++runs;
    return x * 2;
  };
  const Tensor x = torch::ones({2}).set_requires_grad(true);
  {
    const torch::NoGradGuard no_grad;
    CHECK_FALSE(recompute(function, x).requires_grad());
  }
  CHECK(runs == 1);
  // Nothing to go back to: the results are integers.
  CHECK_FALSE(recompute([](const Tensor& y) { return y.argmax(); }, x).requires_grad());
}

TEST_CASE("recompute: results that are arguments, parameters or the same tensor twice") {
  Tensor x = torch::ones({2}, kDouble).set_requires_grad(true),
         weight = torch::ones({2}, kDouble).set_requires_grad(true);
  const auto function = [&](const Tensor& a) {
    const Tensor y = a * 3;
    return std::vector<Tensor>{a, weight, y, y};
  };
  const std::vector<Tensor> results = recompute(function, x);
  CHECK(weight.is_leaf());
  (results[0] * 2 + results[1] * 5 + results[2] + results[3]).sum().backward();
  CHECK(same(x.grad(), torch::full({2}, 8, kDouble)));
  CHECK(same(weight.grad(), torch::full({2}, 5, kDouble)));
}

TEST_CASE("recompute: changes in place") {
  Tensor x = torch::ones({2}, kDouble).set_requires_grad(true);
  Tensor y = recompute([](const Tensor& a) { return a * a; }, x);
  y.mul_(3);
  y.sum().backward();
  CHECK(same(x.grad(), torch::full({2}, 6, kDouble)));
  Tensor h = x * 1;
  const Tensor loss = recompute([](const Tensor& a) { return a * a; }, h).sum();
  h.add_(1);
  CHECK_THROWS_WITH(loss.backward(), Contains("modified by an inplace operation"));
}

TEST_CASE("recompute: what cannot be gone back through says why") {
  Tensor x = torch::ones({2, 3}, kDouble).set_requires_grad(true);
  int runs = 0;
  const auto changes = [&](const Tensor& a) { return runs++ == 0 ? a * 2 : a.sum(0) * 2; };
  CHECK_THROWS_WITH(
      recompute(changes, x).sum().backward(),
      Contains("dtrain: recompute: tensor 0 that the function returned was Double [2, 3] in forward and is "
               "Double [3] when backward ran it again"));
  runs = 0;
  const auto more = [&](const Tensor& a) {
    return runs++ == 0 ? std::vector<Tensor>{a * 2} : std::vector<Tensor>{a, a};
  };
  CHECK_THROWS_WITH(recompute(more, x)[0].sum().backward(), Contains("1 tensors in forward and 2 when"));
  const auto square = [](const Tensor& a) { return a * a; };
  CHECK_THROWS_WITH(recompute(square, x).sum().backward({}, true, /*create_graph=*/true),
                    Contains("gradients of gradients"));
  CHECK_THROWS_WITH(torch::autograd::grad({recompute(square, x).sum()}, {x}), Contains("torch::autograd::grad"));
  CHECK_FALSE(x.grad().defined());
  const auto fails = [&](const Tensor& a) {
    if (!a.requires_grad()) return a * 2;
    throw std::runtime_error("the second run");
  };
  CHECK_THROWS_WITH(recompute(fails, x).sum().backward(), Contains("the second run"));
  CHECK(torch::GradMode::is_enabled());
  struct Strange {
    Tensor inside;
  };
  CHECK_THROWS_WITH(recompute([](const Strange& each) { return each.inside; }, Strange{x}), Contains("an argument"));
  CHECK_THROWS_WITH(recompute([](const Tensor& each) { return Strange{each}; }, x),
                    Contains("what the function returned"));
  CHECK(torch::GradMode::is_enabled());
}

TEST_CASE("recompute: autocast holds in both runs, and a cast weight gets its gradients from everywhere") {
  torch::manual_seed(3);
  torch::nn::Linear layer(4, 4);
  const Tensor input = torch::randn({2, 4});
  std::vector<at::ScalarType> seen;
  const auto function = [&](const Tensor& a) {
    const Tensor y = layer(a);
    seen.push_back(y.scalar_type());
    return y;
  };
  const auto run = [&](bool again) {
    layer->zero_grad();
    Tensor x = input.clone().set_requires_grad(true), y;
    {
      const Autocast half(torch::kCPU, torch::kBFloat16);
      y = again ? recompute(function, x) : function(x);
      // The same weight outside. Autocast keeps the cast weights of the first use.
      y = y + layer(x.detach());
    }
    y.sum().backward();
    return std::vector<Tensor>{x.grad(), layer->weight.grad().clone(), layer->bias.grad().clone()};
  };
  const std::vector<Tensor> plain = run(false);
  seen.clear();
  const std::vector<Tensor> repeated = run(true);
  CHECK(seen == std::vector<at::ScalarType>{at::kBFloat16, at::kBFloat16});
  CHECK_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  CHECK(at::autocast::is_autocast_cache_enabled());
  CHECK(same(plain[0], repeated[0]));
  // A plain forward adds the two gradients in bfloat16, and casts their sum.
  for (std::size_t i = 1; i < plain.size(); ++i) CHECK(torch::allclose(plain[i], repeated[i], 0.02, 0.02));
}
