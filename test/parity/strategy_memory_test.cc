// What a rank of a training holds of parameters, gradients and the optimizer's state, beside what `dtrain estimate`
// says (strategies/config/memory_estimate.h).
#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "dtrain/dtrain.h"
#include "strategies/config/memory_estimate.h"
#include "test/parity/joined.h"
#include "test/support/catch.h"
#include "test/support/malloc.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

constexpr int kRanks = 2, kDepth = 4;
constexpr std::int64_t kEdge = 64;

std::int64_t most_whole = 0;  // bytes of blocks that were whole at one time
torch::nn::Module* watched = nullptr;

// Bytes of the memories in which these tensors lie, each once.
std::int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  std::map<const void*, std::int64_t> memories;
  for (const at::Tensor& each : tensors) {
    if (!each.defined() || !each.has_storage() || each.storage().data() == nullptr) continue;
    std::int64_t& bytes = memories[each.storage().data()];
    bytes = std::max(bytes, static_cast<std::int64_t>(each.storage().nbytes()));
  }
  std::int64_t all = 0;
  for (const auto& [memory, bytes] : memories) all += bytes;
  return all;
}

std::vector<at::Tensor> parameters_in(const torch::nn::Module& module) {
  std::vector<at::Tensor> found;
  for (const at::Tensor& each : module.parameters()) {
    // That of a sharded parameter cannot be asked for its data.
    if (each.storage().nbytes() > 0 && each.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get())
      found.push_back(each);
  }
  return found;
}

void watch() {
  if (watched != nullptr) most_whole = std::max(most_whole, bytes_of(parameters_in(*watched)));
}

struct MemBlockImpl : torch::nn::Module {
  MemBlockImpl() : linear(register_module("linear", torch::nn::Linear(kEdge, kEdge))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    watch();
    torch::Tensor y = x + torch::tanh(linear(x));
    if (y.requires_grad()) {
      y.register_hook([](const torch::Tensor& gradient) {
        watch();
        return gradient;
      });
    }
    return y;
  }
  torch::nn::Linear linear;
};
DTRAIN_UNIT(MemBlock);

struct MemNetImpl : torch::nn::Module {
  MemNetImpl() {
    for (int i = 0; i < kDepth; ++i) blocks->push_back(MemBlock());
    register_module("blocks", blocks);
    head = register_module("head", torch::nn::Linear(kEdge, 16));
  }
  torch::Tensor forward(const torch::Tensor& x) { return head(blocks->forward(x)); }
  torch::nn::Sequential blocks;
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(MemNet);

constexpr int kLargeDepth = 24;
constexpr std::int64_t kLargeEdge = 2048;
constexpr std::int64_t kLargeBytes = kLargeDepth * kLargeEdge * kLargeEdge * 4;  // 384 MiB

struct LargeBlockImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return x + linear(x); }
  torch::nn::Linear linear =
      register_module("linear", torch::nn::Linear(torch::nn::LinearOptions(kLargeEdge, kLargeEdge).bias(false)));
};
DTRAIN_UNIT(LargeBlock);

struct LargeNetImpl : torch::nn::Module {
  LargeNetImpl() {
    for (int i = 0; i < kLargeDepth; ++i) blocks->push_back(LargeBlock());
    register_module("blocks", blocks);
  }
  torch::Tensor forward(const torch::Tensor& x) { return blocks->forward(x); }
  torch::nn::Sequential blocks;
};
TORCH_MODULE(LargeNet);

// A number of this process's memory, in bytes.
std::int64_t bytes_in_status(const std::string& name) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line))
    if (line.starts_with(name)) return 1024 * std::stoll(line.substr(name.size()));
  throw std::runtime_error("no " + name);
}

// Builds a large model: the most memory that a rank got for that, of what the model has.
double most_memory_to_build(const Strategy& strategy) {
  const auto outcomes = outcomes_of(4, [&](Session& session) {
    std::ofstream("/proc/self/clear_refs") << 5;  // VmHWM begins again
    const std::int64_t before = bytes_in_status("VmHWM:");
    Parallel model(
        session, [] { return LargeNet(); }, ParallelOptions{.strategy = strategy});
    return std::to_string(bytes_in_status("VmHWM:") - before);
  });
  double most = 0;
  for (const std::string& said : said_by(outcomes)) {
    INFO(said);
    REQUIRE(std::stoll("0" + said) > 0);
    most = std::max(most, std::stod(said) / static_cast<double>(kLargeBytes));
  }
  return most;
}

config::ModelSize size_of_net() {
  return {.units = std::vector<std::int64_t>(kDepth, kEdge * kEdge + kEdge),
          .rest = kEdge * 16 + 16,
          .largest = kEdge * kEdge};
}

// Bytes at the end of a backward: of parameters, of gradients, of the state, and the most of blocks that were whole.
std::string held_with(Session& session, const Strategy& strategy, const OptimizerOptions& algorithm) {
  Parallel model(
      session, [] { return MemNet(); }, ParallelOptions{.strategy = strategy});
  auto optimizer = model.optimizer(algorithm);
  watched = &model.module();
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    most_whole = 0;
    model(torch::ones({2, kEdge})).pow(2).mean().backward();
    if (step < 2) model.step(optimizer);
  }
  watched = nullptr;
  std::vector<at::Tensor> values = parameters_in(model.module()), gradients, state;
  // parameters() would make narrow gradients wide.
  const bool whole = strategy.kind == StrategyKind::ddp;
  for (const ShardRun& run : model.core().runs()) {
    values.push_back(run.values);
    if (!whole) gradients.push_back(run.values.grad());
  }
  if (whole)
    for (const at::Tensor& each : model.parameters()) gradients.push_back(each.grad());
  for (const ShardState& each : optimizer.state())
    for (const auto& [name, tensor] : each.tensors) state.push_back(tensor);
  std::ostringstream said;
  said << bytes_of(values) << ' ' << bytes_of(gradients) << ' ' << bytes_of(state) << ' ' << most_whole;
  return said.str();
}

struct Held {
  double parameters = 0, gradients = 0, optimizer = 0, whole = 0;
};

Held held(const Strategy& strategy, const OptimizerOptions& algorithm = AdamW{}) {
  const auto outcomes = outcomes_of(kRanks, [&](Session& session) { return held_with(session, strategy, algorithm); });
  Held mean;
  for (const std::string& said : said_by(outcomes)) {
    INFO(said);
    std::istringstream words(said);
    Held one;
    REQUIRE(words >> one.parameters >> one.gradients >> one.optimizer >> one.whole);
    mean.parameters += one.parameters / kRanks;
    mean.gradients += one.gradients / kRanks;
    mean.optimizer += one.optimizer / kRanks;
    mean.whole = std::max(mean.whole, one.whole);
  }
  return mean;
}

void check_within(const char* what, double held, double estimated) {
  INFO(what << ": held " << held << ", estimated " << estimated);
  CHECK(std::abs(held - estimated) <= 0.05 * estimated);
}

}  // namespace

TEST_CASE("strategy memory: a rank holds what was estimated, within five per cent") {
  using Kind = StrategyKind;
  const Strategy ways[] = {
      {.kind = Kind::ddp},
      {.kind = Kind::zero1},
      {.kind = Kind::zero1, .deterministic = true},
      {.kind = Kind::zero2, .param = Precision::bfloat16, .deterministic = true},
      {.kind = Kind::fsdp, .one_copy = false, .deterministic = true},
      {.kind = Kind::zero1, .param = Precision::bfloat16},
      {.kind = Kind::zero1, .param = Precision::bfloat16, .reduce = Precision::float32},
      {.kind = Kind::zero2},
      {.kind = Kind::zero2, .param = Precision::bfloat16},
      {.kind = Kind::fsdp, .one_copy = false},
      {.kind = Kind::fsdp, .param = Precision::bfloat16, .one_copy = false},
      {.kind = Kind::fsdp, .reshard_after_forward = false, .one_copy = false},
  };
  for (const Strategy& strategy : ways) {
    INFO(name_of(strategy.kind) << (strategy.param == Precision::same ? "" : ", bfloat16"));
    const Held real = held(strategy);
    const config::RankMemory estimated = config::memory_of(strategy, size_of_net(), {.ranks = kRanks});
    check_within("gradients", real.gradients, estimated.gradients);
    check_within("optimizer", real.optimizer, estimated.optimizer);
    check_within("parameters", real.parameters, estimated.parameters);
  }
}

TEST_CASE("strategy memory: with one copy the ranks of a host hold it together") {
  for (const Precision param : {Precision::same, Precision::bfloat16}) {
    const Strategy strategy{.kind = StrategyKind::fsdp, .param = param};
    const Held real = held(strategy);
    const config::RankMemory estimated =
        config::memory_of(strategy, size_of_net(), {.ranks = kRanks, .host_ranks = kRanks});
    check_within("gradients", real.gradients, estimated.gradients);
    check_within("optimizer", real.optimizer, estimated.optimizer);
  }
}

TEST_CASE("strategy memory: no more units are whole than were estimated") {
  const double block = 4.0 * static_cast<double>(kEdge * kEdge + kEdge);
  const double rest = 4.0 * static_cast<double>(kEdge * 16 + 16);
  for (const int prefetch : {0, 1, 2}) {
    const Strategy strategy{.kind = StrategyKind::fsdp, .prefetch = prefetch, .one_copy = false};
    INFO("prefetch " << prefetch);
    const Held real = held(strategy);
    // A unit that is on its way is not whole yet.
    CHECK(real.whole >= 0.95 * (block + rest));
    CHECK(real.whole <= 1.05 * ((1 + prefetch) * block + rest));
  }
}

TEST_CASE("strategy memory: SGD without momentum keeps nothing") {
  CHECK(held({.kind = StrategyKind::zero1}, Sgd{.lr = 0.1}).optimizer == 0);
}

TEST_CASE("strategy memory: no rank has the whole model while it is built") {
  // A quarter each, the block that is made, and what malloc has not given back.
  const double most = most_memory_to_build({.kind = StrategyKind::fsdp, .one_copy = false});
  if (!test::kOtherMalloc) CHECK(most < 0.5);
  CHECK(most_memory_to_build({.kind = StrategyKind::ddp}) > 1);
}
