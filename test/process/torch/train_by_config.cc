// Trains a small net as a config of DeepSpeed says: optimizer, rate, clipping, batch. Prints what it did.
#include <cstdio>

#include "dtrain/dtrain.h"

namespace {

struct BlockImpl : torch::nn::Module {
  BlockImpl() : linear(register_module("linear", torch::nn::Linear(16, 16))) {}
  torch::Tensor forward(const torch::Tensor& x) { return x + torch::tanh(linear(x)); }
  torch::nn::Linear linear;
};
DTRAIN_UNIT(Block);

struct NetImpl : torch::nn::Module {
  NetImpl() {
    for (int i = 0; i < 3; ++i) blocks->push_back(Block());
    register_module("blocks", blocks);
  }
  torch::Tensor forward(torch::Tensor x) { return blocks->forward(x); }
  torch::nn::Sequential blocks;
};
TORCH_MODULE(Net);

constexpr std::int64_t kSteps = 20;

}  // namespace

// docs/training/sharding.md shows the lines that matter, as the counterpart of a program of DeepSpeed.
int main() {
  auto session = dtrain::init();
  const dtrain::TrainingConfig& config = session.training_config();
  torch::manual_seed(7);  // the same data on every rank
  const torch::Tensor all = torch::randn({config.global_batch, 16});
  const auto pieces = all.chunk(session.world_size())[session.rank()].split(config.micro_batch);
  const auto batch_of = [&](std::int64_t /*step*/, std::int64_t part) {
    const torch::Tensor& x = pieces.at(static_cast<std::size_t>(part));
    return std::pair(x, x.sin());
  };
  dtrain::Parallel model(session, [] { return Net(); });
  auto optimizer = model.optimizer(config.optimizer.value_or(dtrain::AdamW{.lr = 3e-4}));
  const std::int64_t steps = config.steps.value_or(kSteps);
  torch::Tensor sum, norm;
  for (std::int64_t step = 0; step < steps; ++step) {
    if (config.rate) optimizer.set_lr(config.rate(step));
    model.zero_grad();
    sum = torch::zeros({});
    for (std::int64_t part = 0; part < config.accumulation; ++part) {
      const auto [x, y] = batch_of(step, part);
      const auto loss = (model(x) - y).pow(2).mean();
      (loss / static_cast<double>(config.accumulation)).backward();
      sum += loss.detach() / static_cast<double>(config.accumulation);
    }
    if (config.max_norm) norm = model.clip_grad_norm(*config.max_norm);
    model.step(optimizer);
  }
  session.all_reduce(sum, c10d::ReduceOp::AVG);
  if (session.is_first()) {
    std::printf("%s: micro %ld accumulation %ld global %ld steps %ld rate %.9f clipped %d loss %.6f\n",
                name_of(model.strategy().kind).c_str(), static_cast<long>(config.micro_batch),
                static_cast<long>(config.accumulation), static_cast<long>(config.global_batch),
                static_cast<long>(steps), optimizer.lr(),
                config.max_norm && norm.item<double>() > *config.max_norm ? 1 : 0, sum.item<double>());
  }
  session.shutdown();
}
