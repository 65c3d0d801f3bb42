// Parallel under each strategy, on the session's device against CPUs, by the same ranks: what the way over NCCL, and
// the order of streams, add is the difference.
#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/cuda.h>

#include <filesystem>

#include "test/process/gpu/checks.h"

namespace dtrain::gpu_test {
namespace {

constexpr int kSharedSteps = 8;
constexpr std::int64_t kSamplesEach = 6, kSharedWidth = 20, kResults = 5;

struct PartImpl : torch::nn::Module {
  explicit PartImpl(bool again) : recomputes(again) {
    wide = register_module("wide", torch::nn::Linear(kSharedWidth, 3 * kSharedWidth));
    narrow = register_module("narrow", torch::nn::Linear(3 * kSharedWidth, kSharedWidth));
    to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto inner = [this](const at::Tensor& y) { return narrow(at::tanh(wide(y))); };
    return x + (recomputes ? recompute(inner, x) : inner(x));
  }
  bool recomputes;
  torch::nn::Linear wide{nullptr}, narrow{nullptr};
};
DTRAIN_UNIT(Part);

struct PartedImpl : torch::nn::Module {
  explicit PartedImpl(bool again) {
    for (int i = 0; i < 3; ++i) parts->push_back(Part(again));
    register_module("parts", parts);
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kSharedWidth})));
    norm->to(at::kDouble);
    last = register_module("last", torch::nn::Linear(kSharedWidth, kResults));
    last->to(at::kDouble);
    forwards = register_buffer("forwards", at::zeros({1}));
  }
  at::Tensor forward(const at::Tensor& x) {
    forwards += 1;
    return last(norm(parts->forward(x)));
  }
  torch::nn::Sequential parts;
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear last{nullptr};
  at::Tensor forwards;
};
TORCH_MODULE(Parted);

struct SharedWay {
  const char* name;
  Strategy strategy{};
  double most = 1e-9;  // apart
  bool recomputes = false;
  bool accumulates = false;  // every other backward without communication
  bool owns = false;         // whole matrices on one rank
  bool late = false;         // inputs come late on the stream
};

Parallel<PartedImpl> model_of(Checks& on, const SharedWay& way, const at::Device& device) {
  torch::manual_seed(on.rank());
  ParallelOptions options;
  options.strategy = way.strategy;
  options.device = device;
  if (way.owns) {
    options.placement = [](const std::string&, const at::Tensor& parameter) {
      return parameter.dim() == 2 ? Placement::owned() : Placement{};
    };
  }
  return Parallel(
      on.session, [&] { return Parted(way.recomputes); }, options);
}

at::Tensor samples(Checks& on, int step) {
  torch::manual_seed(100 * step + on.rank());
  return torch::randn({kSamplesEach, kSharedWidth}, at::kDouble);
}

void train(Checks& on, const SharedWay& way, Parallel<PartedImpl>& model, ShardedOptimizer& optimizer,
           const at::Device& device) {
  const auto learn = [&](int step) {
    const at::Tensor x = samples(on, step).to(device);
    at::Tensor late = x;
    if (way.late) {
      late = at::zeros_like(x);
      keep_busy(device, 20);
      late.copy_(x);
    }
    (model(late) - x.narrow(1, 0, kResults).sin()).pow(2).mean().backward();
  };
  for (int step = 0; step < kSharedSteps; ++step) {
    model.zero_grad();
    if (way.accumulates) {
      const auto quiet = model.no_sync();
      learn(1000 + step);
    }
    learn(step);
    model.clip_grad_norm(0.5);
    model.step(optimizer);
  }
}

std::vector<at::Tensor> all_of(Parallel<PartedImpl>& model) {
  const auto full = model.full_parameters();
  std::vector<at::Tensor> found;
  for (const at::Tensor& each : model->parameters()) found.push_back(each.detach().cpu().clone());
  for (const at::Tensor& each : model->buffers()) found.push_back(each.detach().cpu().clone());
  return found;
}

double apart(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, (a[i] - b[i]).abs().max().to(at::kDouble).item<double>());
  return largest;
}

std::vector<at::Tensor> values_after(Checks& on, const SharedWay& way, const at::Device& device) {
  auto model = model_of(on, way, device);
  const std::vector<at::Tensor> before = all_of(model);
  auto optimizer = model.optimizer(AdamW{.lr = 0.01});
  train(on, way, model, optimizer, device);
  for (const at::Tensor& each : model->parameters()) require(each.device() == device, "a parameter is elsewhere");
  const at::Device parts = way.strategy.cpu_offload ? at::Device(at::kCPU) : device;
  for (const at::Tensor& each : model.parameters()) require(each.device() == parts, "a part is elsewhere");
  std::vector<at::Tensor> after = all_of(model);
  require(apart(before, after) > 1e-2, "nothing was learnt");
  return after;
}

std::vector<SharedWay> shared_ways(int ranks) {
  using Kind = StrategyKind;
  const Strategy fsdp{.kind = Kind::fsdp, .one_copy = false};
  const auto with = [&](const std::function<void(Strategy&)>& change) {
    Strategy strategy = fsdp;
    change(strategy);
    return strategy;
  };
  std::vector<SharedWay> all{
      {"ddp", {.kind = Kind::ddp}},
      {"zero1", {.kind = Kind::zero1}},
      {"zero1_buckets", {.kind = Kind::zero1, .bucket_bytes = 4096}},
      {"zero2", {.kind = Kind::zero2}},
      {"zero2_buckets", {.kind = Kind::zero2, .bucket_bytes = 4096}},
      {"fsdp", fsdp},
      {"fsdp_no_prefetch", with([](auto& s) { s.prefetch = 0; })},
      {"fsdp_prefetch_2", with([](auto& s) { s.prefetch = 2; })},
      {"fsdp_prefetch_bytes", with([](auto& s) { s.prefetch = 3, s.prefetch_bytes = 20000; })},
      {"fsdp_whole_between", with([](auto& s) { s.reshard_after_forward = false; })},
      {"fsdp_bfloat16", with([](auto& s) { s.param = Precision::bfloat16, s.reduce = Precision::float32; }), 0.1}};
  all.push_back({"fsdp_offload", with([](auto& s) { s.cpu_offload = true; })});
  all.push_back({"zero1_offload", {.kind = Kind::zero1, .cpu_offload = true}});
  all.push_back({"zero2_offload", {.kind = Kind::zero2, .bucket_bytes = 4096, .cpu_offload = true}});
  all.push_back({.name = "fsdp_recompute", .strategy = fsdp, .recomputes = true});
  all.push_back({.name = "fsdp_accumulates", .strategy = fsdp, .accumulates = true});
  all.push_back({.name = "zero1_accumulates", .strategy = {.kind = Kind::zero1}, .accumulates = true});
  all.push_back({.name = "fsdp_owned", .strategy = fsdp, .owns = true});
  all.push_back({.name = "fsdp_late", .strategy = fsdp, .late = true});
  all.push_back({.name = "zero2_late", .strategy = {.kind = Kind::zero2, .bucket_bytes = 4096}, .late = true});
  if (ranks % 2 == 0) {
    all.push_back({"fsdp_hybrid", with([&](auto& s) { s.shard_size = ranks / 2; })});
    all.push_back({"fsdp_deterministic", with([](auto& s) { s.deterministic = true; })});
  }
  if (ranks == 4) all.push_back({"fsdp_near", with([](auto& s) { s.reshard_size = 2; })});
  return all;
}

void between_devices(Checks& on) {
  on.run("checkpoint", [&] {
    const SharedWay saved{"", {.kind = StrategyKind::fsdp}}, loaded{"", {.kind = StrategyKind::zero1}};
    auto model = model_of(on, saved, on.device);
    auto optimizer = model.optimizer(AdamW{.lr = 0.01});
    train(on, saved, model, optimizer, on.device);
    at::Tensor number = at::zeros({1}, at::kLong);
    if (on.rank() == 0) number[0] = getpid();
    on.session.broadcast(number);
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / fmt::format("dtrain-gpu-test-{}", number.item<std::int64_t>());
    {
      Checkpoints checkpoints(on.session.world(), folder, CheckpointOptions{.sync = false});
      model.save(checkpoints, 1, optimizer);
      auto other = model_of(on, loaded, at::kCPU);
      auto its = other.optimizer(AdamW{.lr = 0.01});
      other.load(checkpoints, its);
      require_near(apart(all_of(model), all_of(other)), 0, "what CPUs loaded");
      train(on, saved, model, optimizer, on.device);
      train(on, loaded, other, its, at::kCPU);
      require_near(apart(all_of(model), all_of(other)), 1e-9, "after more steps");
    }
    on.session.barrier();
    if (on.rank() == 0) std::filesystem::remove_all(folder);
  });
}

// Bytes on the GPU at most, in three steps of a model of twelve matrices.
std::int64_t peak_of(Checks& on, const Strategy& strategy) {
  struct MatrixImpl : torch::nn::Module {
    MatrixImpl() {
      linear = register_module("linear", torch::nn::Linear(torch::nn::LinearOptions(1000, 1000).bias(false)));
    }
    at::Tensor forward(const at::Tensor& x) { return at::tanh(linear(x)); }
    torch::nn::Linear linear{nullptr};
  };
  const auto build = [] {
    torch::nn::Sequential net;
    for (int i = 0; i < 12; ++i) net->push_back(unit_of<MatrixImpl>());
    return net;
  };
  namespace allocator = c10::cuda::CUDACachingAllocator;
  torch::cuda::synchronize();
  const auto before = allocator::getDeviceStats(on.device.index()).allocated_bytes[0].current;
  allocator::resetPeakStats(on.device.index());
  ParallelOptions options;
  options.strategy = strategy;
  Parallel model(on.session, build, options);
  auto optimizer = model.optimizer(AdamW{});
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    model(at::ones({4, 1000}, at::TensorOptions(on.device))).pow(2).mean().backward();
    model.step(optimizer);
  }
  torch::cuda::synchronize();
  return allocator::getDeviceStats(on.device.index()).allocated_bytes[0].peak - before;
}

void memory(Checks& on) {
  if (!on.on_gpu()) return;
  on.run("memory", [&] {
    const double all = 12.0 * 4e6, ranks = on.ranks(),
                 live = 4 * 4e6;  // bytes of parameters; and of groups on their way
    const auto check = [&](const char* name, const Strategy& strategy, double most) {
      const auto peak = static_cast<double>(peak_of(on, strategy));
      std::puts(fmt::format("peak {} {:.1f} MB, {:.2f} of what it should be", name, peak / 1e6, peak / most).c_str());
      require(peak <= 1.1 * most, fmt::format("{}: {:.0f} bytes, and {:.0f} should do", name, peak, most));
    };
    check("ddp", {.kind = StrategyKind::ddp}, 4 * all + live);
    check("zero1", {.kind = StrategyKind::zero1}, 2 * all + 2 * all / ranks + live);
    check("zero2", {.kind = StrategyKind::zero2, .bucket_bytes = 4'000'000}, all + 3 * all / ranks + live);
    check("fsdp", {.kind = StrategyKind::fsdp}, 4 * all / ranks + live);
  });
}

}  // namespace

void check_sharded(Checks& checks) {
  for (const SharedWay& way : shared_ways(checks.ranks())) {
    checks.run(way.name, [&] {
      SharedWay reference{"", {.kind = StrategyKind::zero1}};
      reference.accumulates = way.accumulates;
      require_near(apart(values_after(checks, way, checks.device), values_after(checks, reference, at::kCPU)), way.most,
                   "parameters and buffers on CPUs");
    });
  }
  between_devices(checks);
  memory(checks);
}

}  // namespace dtrain::gpu_test
