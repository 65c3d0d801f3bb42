// The program of docs/training/sharding.md; strategy_test.py compares the two and runs it.
#include <cstdio>

#include "dtrain/dtrain.h"

// clang-format off
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(int width) : linear(register_module("linear", torch::nn::Linear(width, width))) {}
  torch::Tensor forward(torch::Tensor x) { return x + torch::tanh(linear(x)); }
  torch::nn::Linear linear;
};
DTRAIN_UNIT(Block);  // in place of TORCH_MODULE(Block): fsdp shards each Block by itself

struct NetImpl : torch::nn::Module {
  explicit NetImpl(int width, int depth) {
    for (int i = 0; i < depth; ++i) blocks->push_back(Block(width));
    register_module("blocks", blocks);
  }
  torch::Tensor forward(torch::Tensor x) { return blocks->forward(x); }
  torch::nn::Sequential blocks;
};
TORCH_MODULE(Net);

int main() {
  auto session = dtrain::init();
  torch::manual_seed(session.rank());  // data of its own for each rank
  dtrain::Parallel model(session, [] { return Net(64, 8); });
  torch::optim::AdamW optimizer(model.parameters());
  torch::Tensor loss;
  for (int step = 0; step < 100; ++step) {
    model.zero_grad();
    auto x = torch::randn({32, 64});
    loss = (model(x) - x.sin()).pow(2).mean();
    loss.backward();
    model.clip_grad_norm(1.0);
    model.step(optimizer);
  }
  loss = loss.detach();
  session.all_reduce(loss, c10d::ReduceOp::AVG);
  if (session.is_first()) std::printf("%s: loss %.4f\n", name_of(model.strategy().kind).c_str(), loss.item<float>());
  session.shutdown();
}
