// 50 steps by Ddp, by hvd::DistributedOptimizer, and in one process on the batches of all ranks, from the same weights:
// the weights stay the same, within 1e-9 in double precision. In single precision, where sums in another order differ,
// within 1e-4: weights are below 1, steps below 0.1, and an error grows with the steps.
//
// On every device that the session can use. Says what it found; ends with 1 where it is too much.
#include <fmt/format.h>

#include <cstdio>

#include "dtrain/dtrain.h"
#include "test/parity/differences.h"

namespace {

using namespace dtrain;

constexpr int kSteps = 50, kSamples = 8;

struct NetImpl : torch::nn::Module {
  explicit NetImpl(const torch::TensorOptions& options) {
    first = register_module("first", torch::nn::Linear(12, 40));
    second = register_module("second", torch::nn::Linear(40, 40));
    last = register_module("last", torch::nn::Linear(40, 5));
    to(options.device(), torch::typeMetaToScalarType(options.dtype()));
  }
  torch::Tensor forward(const torch::Tensor& x) { return last(torch::tanh(second(torch::tanh(first(x))))); }
  torch::nn::Linear first{nullptr}, second{nullptr}, last{nullptr};
};
TORCH_MODULE(Net);

struct Batch {
  torch::Tensor x, y;
};

// Made on the CPU: the same numbers whatever the device.
Batch batch_of(int step, int rank, const torch::TensorOptions& options) {
  torch::manual_seed(1'000 * step + rank);
  return {torch::randn({kSamples, 12}, torch::kDouble).to(options),
          torch::randn({kSamples, 5}, torch::kDouble).to(options)};
}

Net net_from(int seed, const torch::TensorOptions& options) {
  torch::manual_seed(seed);
  return Net(options);
}

std::unique_ptr<torch::optim::Optimizer> sgd(const Net& net) {
  return std::make_unique<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
}

struct Differences {
  double ddp = 0, hvd = 0;  // the largest of all steps
  double moved = 0;         // from the first weights to the last: else there was nothing to differ
};

Differences train(Session& session, const torch::TensorOptions& options) {
  Net alone = net_from(0, options), by_ddp = net_from(session.rank(), options),
      by_hvd = net_from(session.rank(), options);
  Ddp model(session, by_ddp);  // with the weights of rank 0
  hvd::Context context(session);
  hvd::broadcast_parameters(session, *by_hvd);
  const auto alone_sgd = sgd(alone), ddp_sgd = sgd(by_ddp), inner = sgd(by_hvd);
  hvd::DistributedOptimizer hvd_sgd(context, *inner, by_hvd->named_parameters());
  Differences largest;
  const Net first = net_from(0, options);
  for (int step = 0; step < kSteps; ++step) {
    const Batch own = batch_of(step, session.rank(), options);
    const auto loss = [](const torch::Tensor& out, const Batch& batch) { return (out - batch.y).pow(2).mean(); };
    model.zero_grad();
    loss(model(own.x), own).backward();
    ddp_sgd->step();
    hvd_sgd.zero_grad();
    loss(by_hvd->forward(own.x), own).backward();
    hvd_sgd.step();
    std::vector<torch::Tensor> xs, ys;
    for (int rank = 0; rank < session.world_size(); ++rank) {
      const Batch batch = batch_of(step, rank, options);
      xs.push_back(batch.x);
      ys.push_back(batch.y);
    }
    const Batch all{torch::cat(xs), torch::cat(ys)};
    alone_sgd->zero_grad();
    loss(alone->forward(all.x), all).backward();
    alone_sgd->step();
    largest.ddp = std::max(largest.ddp, test::largest_difference(*by_ddp, *alone));
    largest.hvd = std::max(largest.hvd, test::largest_difference(*by_hvd, *alone));
  }
  largest.moved = test::largest_difference(*alone, *first);
  return largest;
}

}  // namespace

int main() {
  torch::set_num_threads(1);
  Session session = init();
  bool fits = true;
  for (const auto& [type, most] : {std::pair{torch::kDouble, 1e-9}, std::pair{torch::kFloat, 1e-4}}) {
    const Differences found = train(session, torch::TensorOptions(session.device()).dtype(type));
    fmt::print(
        "rank {} of {} on {}, {}: Ddp {:.1e} apart, DistributedOptimizer {:.1e}; at most {:.0e}; weights moved "
        "{:.2f}\n",
        session.rank(), session.world_size(), session.device().str(), c10::toString(type), found.ddp, found.hvd, most,
        found.moved);
    fits = fits && found.moved > 0.1 && found.ddp <= most && found.hvd <= most;
  }
  session.shutdown();
  return fits ? 0 : 1;
}
