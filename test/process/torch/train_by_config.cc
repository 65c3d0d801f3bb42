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

constexpr int kSteps = 20;

}  // namespace

int main() {
  auto session = dtrain::init();
  const dtrain::TrainingConfig& config = session.training_config();
  torch::manual_seed(7);  // the same data on every rank
  const torch::Tensor all = torch::randn({config.global_batch, 16});
  const torch::Tensor mine = all.chunk(session.world_size())[session.rank()];
  dtrain::Parallel model(session, [] { return Net(); });
  auto optimizer = model.optimizer(config.optimizer.value_or(dtrain::Sgd{.lr = 0.1}));
  double loss = 0, norm = 0;
  for (int step = 0; step < kSteps; ++step) {
    if (config.rate) optimizer.set_lr(config.rate(step));
    model.zero_grad();
    torch::Tensor sum = torch::zeros({});
    const auto pieces = mine.split(config.micro_batch);
    for (const torch::Tensor& x : pieces) {
      const torch::Tensor part = (model(x) - x.sin()).pow(2).mean() / static_cast<double>(pieces.size());
      part.backward();
      sum += part.detach();
    }
    if (config.max_norm) norm = model.clip_grad_norm(*config.max_norm).item<double>();
    model.step(optimizer);
    session.all_reduce(sum, c10d::ReduceOp::AVG);
    loss = sum.item<double>();
  }
  if (session.is_first()) {
    std::printf("%s: micro %ld accumulation %ld global %ld rate %.9f clipped %d loss %.6f\n",
                name_of(model.strategy().kind).c_str(), static_cast<long>(config.micro_batch),
                static_cast<long>(config.accumulation), static_cast<long>(config.global_batch), optimizer.lr(),
                config.max_norm && norm > *config.max_norm ? 1 : 0, loss);
  }
  session.shutdown();
}
