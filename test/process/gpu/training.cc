// Training on the session's device against the same training on CPUs, by the same ranks: what the way over NCCL adds is
// the difference.
#include <c10/cuda/CUDACachingAllocator.h>

#include "test/process/gpu/checks.h"

namespace dtrain::gpu_test {
namespace {

constexpr int kSteps = 12, kSamples = 8;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("first", torch::nn::Linear(12, 40));
    norm = register_module("norm", torch::nn::BatchNorm1d(40));
    second = register_module("second", torch::nn::Linear(40, 40));
    spare = register_module("spare", torch::nn::Linear(40, 40));
    last = register_module("last", torch::nn::Linear(40, 5));
    to(at::kDouble);
  }
  // `spares`: without the spare layer.
  at::Tensor forward(const at::Tensor& x, bool spares) {
    at::Tensor h = at::tanh(second(at::tanh(norm(first(x)))));
    if (!spares) h = at::tanh(spare(h));
    return last(h);
  }
  torch::nn::Linear first{nullptr}, second{nullptr}, spare{nullptr}, last{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(Net);

at::Tensor input(int step, int rank) {
  torch::manual_seed(1'000 * step + rank);
  return torch::randn({kSamples, 12}, at::kDouble);
}

Net net_from(int seed, const at::Device& device) {
  torch::manual_seed(seed);
  Net net;
  net->to(device);
  return net;
}

at::Tensor loss_of(const at::Tensor& out, const at::Tensor& x) { return (out - x.narrow(1, 0, 5).sin()).pow(2).mean(); }

std::unique_ptr<torch::optim::SGD> sgd(const Net& net) {
  return std::make_unique<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
}

// Of all parameters and buffers.
double apart(const Net& a, const Net& b) {
  double largest = 0;
  const auto left = a->named_parameters(), right = b->named_parameters();
  for (const auto& item : left)
    largest = std::max(largest, (item.value().cpu() - right[item.key()].cpu()).abs().max().item<double>());
  const auto more = a->named_buffers(), others = b->named_buffers();
  for (const auto& item : more)
    largest =
        std::max(largest, (item.value().cpu() - others[item.key()].cpu()).abs().to(at::kDouble).max().item<double>());
  return largest;
}

struct Way {
  const char* name;
  DdpOptions options{};
  double most = 1e-9;   // apart
  bool spares = false;  // the spare layer, in every other step
  bool skips = false;   // every other reduction, by no_sync
  bool joins = false;   // ranks stop at different steps
};

Net trained(Checks& on, const Way& way, const at::Device& device) {
  Net net = net_from(on.rank(), device);
  Ddp model(on.session, net, way.options);
  const auto optimizer = sgd(net);
  const auto step = [&](int number) {
    const at::Tensor x = input(number, on.rank()).to(device);
    const bool spares = way.spares && (way.options.static_graph || number % 2 == 0);
    if (way.skips && number % 2 == 0) {
      const auto guard = model.no_sync();
      return loss_of(model(x, spares), x).backward();
    }
    loss_of(model(x, spares), x).backward();
    optimizer->step();
    model.zero_grad();
  };
  const auto all_steps = [&] {
    const int steps = way.joins ? kSteps - on.rank() : kSteps;
    for (int number = 0; number < steps; ++number) step(number);
  };
  way.joins ? model.join(all_steps) : all_steps();
  return net;
}

DdpOptions with(const std::function<void(DdpOptions&)>& change) {
  DdpOptions options;
  change(options);
  return options;
}

std::vector<Way> ways() {
  std::vector<Way> all{{"ddp"}};
  all.push_back({"ddp_bucket_views", with([](auto& o) { o.gradient_as_bucket_view = true; })});
  all.push_back({"ddp_many_buckets", with([](auto& o) { o.bucket_bytes = o.first_bucket_bytes = 1; })});
  all.push_back({"ddp_verify_every", with([](auto& o) { o.verify_every = 3; })});
  all.push_back({"ddp_fp16", with([](auto& o) { o.compression = GradientCompression::fp16; }), 2e-3});
  all.push_back({"ddp_bf16", with([](auto& o) { o.compression = GradientCompression::bf16; }), 2e-2});
  all.push_back({"ddp_power_sgd", with([](auto& o) {
                   o.power_sgd.emplace();
                   o.power_sgd->start_step = 2;
                   o.power_sgd->min_compression_rate = 1;
                   o.bucket_bytes = o.first_bucket_bytes = 4096;
                 }),
                 1e-6});
  all.push_back({"ddp_find_unused", with([](auto& o) { o.find_unused_parameters = true; }), 1e-9, true});
  all.push_back({"ddp_static_graph", with([](auto& o) { o.static_graph = true; }), 1e-9, true});
  all.push_back({"ddp_no_sync", {}, 1e-9, false, true});
  all.push_back({"ddp_join", {}, 1e-9, false, false, true});
  return all;
}

}  // namespace

void check_training(Checks& checks) {
  for (const Way& way : ways()) {
    checks.run(way.name, [&] {
      const Net there = trained(checks, way, checks.device), here = trained(checks, way, at::kCPU);
      require_near(apart(there, here), way.most, "weights and buffers on CPUs");
      require(apart(here, net_from(0, at::kCPU)) > 1e-2, "nothing was learnt");
    });
  }
  checks.run("ddp_hook", [&] {
    const auto group = checks.session.group();
    const Way way{"", with([&](auto& o) {
                    o.hook = [group](c10d::GradBucket& bucket) {
                      std::vector<at::Tensor> tensors{bucket.getBufferRef().div_(group->getSize())};
                      return group->allreduce(tensors)->getFuture()->then(
                          [](c10::ivalue::Future& done) -> c10::IValue { return done.value().toTensorVector().at(0); },
                          c10::TensorType::get());
                    };
                  })};
    require_near(apart(trained(checks, way, checks.device), trained(checks, Way{""}, at::kCPU)), 1e-9, "weights");
  });
}

namespace {

Net trained_by_horovod(Checks& on, hvd::Context& context, const hvd::OptimizerOptions& options, bool joins,
                       const at::Device& device) {
  Net net = net_from(on.rank(), device);
  hvd::broadcast_parameters(on.session, *net);
  const auto inner = sgd(net);
  hvd::DistributedOptimizer optimizer(context, *inner, net->named_parameters(), options);
  const int steps = joins ? kSteps - on.rank() : kSteps;
  for (int step = 0; step < steps; ++step) {
    for (int pass = 0; pass < options.backward_passes_per_step; ++pass) {
      const at::Tensor x = input(step, on.rank()).to(device);
      loss_of(net->forward(x, false), x).backward();
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  if (joins) context.join();
  return net;
}

// Of parameters alone: each rank has its own means of batch norm.
double parameters_apart(const Net& a, const Net& b) {
  double largest = 0;
  const auto right = b->named_parameters();
  for (const auto& item : a->named_parameters())
    largest = std::max(largest, (item.value().cpu() - right[item.key()].cpu()).abs().max().item<double>());
  return largest;
}

}  // namespace

void check_horovod(Checks& checks) {
  hvd::Context context(checks.session);
  const auto check = [&](const char* name, const hvd::OptimizerOptions& options, double most, bool joins = false) {
    checks.run(name, [&] {
      const Net there = trained_by_horovod(checks, context, options, joins, checks.device);
      const Net here = trained_by_horovod(checks, context, options, joins, at::kCPU);
      require_near(parameters_apart(there, here), most, "weights on CPUs");
      require(parameters_apart(here, net_from(0, at::kCPU)) > 1e-2, "nothing was learnt");
    });
  };
  check("hvd", {}, 1e-9);
  check("hvd_fp16", {{hvd::Op::average, GradientCompression::fp16}}, 2e-3);
  check("hvd_predivide", {{hvd::Op::average, GradientCompression::none, 2.0}}, 1e-9);
  check("hvd_passes", {{}, 2}, 1e-9);
  check("hvd_groups", {{}, 1, {{"first.weight", "last.weight"}, {"second.bias", "spare.bias"}}}, 1e-9);
  check("hvd_join", {}, 1e-9, true);
  if ((checks.ranks() & (checks.ranks() - 1)) == 0) check("hvd_adasum", {{hvd::Op::adasum}}, 1e-7);
  checks.run("hvd_optimizer_state", [&] {
    Net net = net_from(0, checks.device);
    const auto optimizer = sgd(net);
    if (checks.rank() == 0) {
      const at::Tensor x = input(0, 0).to(checks.device);
      loss_of(net->forward(x, false), x).backward();
      optimizer->step();
    }
    hvd::broadcast_parameters(checks.session, *net);
    hvd::broadcast_optimizer_state(checks.session, *optimizer);
    for (const at::Tensor& parameter : net->parameters()) {
      auto& state = static_cast<torch::optim::SGDParamState&>(*optimizer->state().at(parameter.unsafeGetTensorImpl()));
      const at::Tensor momentum = state.momentum_buffer();
      require(momentum.device() == checks.device, "the state is elsewhere");
      const at::Tensor of_root = momentum.clone();
      checks.session.broadcast(of_root);
      require(at::equal(of_root, momentum), "another momentum");
    }
  });
}

void check_diverged(Checks& checks) {
  const int other = checks.ranks() - 1;
  const auto diverges = [&](const std::string& parameter, const std::function<void()>& call) {
    try {
      call();
    } catch (const DivergedError& error) {
      require(error.parameter() == parameter && error.ranks() == std::vector<int>{other}, error.what());
      return;
    }
    throw std::runtime_error("no DivergedError");
  };
  checks.run("changed_parameter", [&] {
    torch::nn::Linear layer(8, 3);
    layer->to(checks.device);
    Ddp model(checks.session, layer);
    model.verify_sync();
    const at::NoGradGuard no_grad;
    if (checks.rank() == other) layer->weight[1][2] += 1e-3;
    diverges("weight", [&] { model.verify_sync(); });
  });
  checks.run("another_shape", [&] {
    torch::nn::Linear layer(8, checks.rank() == other ? 4 : 3);
    layer->to(checks.device);
    diverges("weight", [&] { Ddp model(checks.session, layer); });
  });
  checks.run("goes_on", [&] {
    const at::Tensor tensor = at::ones({4}, checks.of(at::kFloat));
    checks.session.all_reduce(tensor);
    require_all(tensor, checks.ranks(), "sum");
  });
}

void measure_memory(Session& session) {
  if (!session.device().is_cuda()) return;
  torch::nn::Sequential net;
  for (int i = 0; i < 13; ++i) net->push_back(torch::nn::Linear(torch::nn::LinearOptions(1000, 1000).bias(false)));
  net->to(session.device());
  Ddp model(session, net);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  const at::Tensor x = at::randn({16, 1000}, at::TensorOptions(session.device()));
  for (int step = 0; step < 5; ++step) {
    model.zero_grad();
    model(x).pow(2).mean().backward();
    optimizer.step();
  }
  torch::cuda::synchronize();
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(session.device().index());
  std::puts(fmt::format("peak {}", stats.allocated_bytes[0].peak).c_str());
}

}  // namespace dtrain::gpu_test
