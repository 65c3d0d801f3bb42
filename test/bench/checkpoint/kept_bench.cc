// Steps with and without a keep, in turns: `kept_bench WIDTH LAYERS BATCH STEPS` under `dtrain run --keep-state`. Rank
// 0 prints medians, each of the slowest rank.
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "dtrain/dtrain.h"
#include "test/bench/timing.h"

namespace {

using dtrain::bench::Clock, dtrain::bench::median, dtrain::bench::ms_since;

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(int width) : linear(register_module("linear", torch::nn::Linear(width, width))) {}
  torch::Tensor forward(torch::Tensor x) { return x + torch::tanh(linear(x)); }
  torch::nn::Linear linear;
};
DTRAIN_UNIT(Block);

struct NetImpl : torch::nn::Module {
  NetImpl(int width, int layers) {
    for (int i = 0; i < layers; ++i) blocks->push_back(Block(width));
    register_module("blocks", blocks);
  }
  torch::Tensor forward(torch::Tensor x) { return blocks->forward(x); }
  torch::nn::Sequential blocks;
};
TORCH_MODULE(Net);

void measure(int width, int layers, int batch, int steps) {
  auto session = dtrain::init();
  if (std::getenv("OMP_NUM_THREADS") == nullptr) torch::set_num_threads(1);
  torch::manual_seed(1);
  dtrain::Parallel model(session, [&] { return Net(width, layers); });
  auto optimizer = model.optimizer(dtrain::AdamW{});
  dtrain::KeptState kept(session);
  const torch::Tensor x = torch::randn({batch, width});
  std::vector<double> plain, with, keeps;
  for (int step = 0; step < 2 * steps + 8; ++step) {
    session.barrier();
    const auto begin = Clock::now();
    model.zero_grad();
    (model(x) - x.sin()).pow(2).mean().backward();
    model.step(optimizer);
    const auto kept_from = Clock::now();
    if (step % 2 == 1) model.keep(kept, step, optimizer);
    torch::Tensor times = torch::tensor({ms_since(begin), ms_since(kept_from)}, torch::kDouble);
    session.all_reduce(times, c10d::ReduceOp::MAX);
    if (step < 8) continue;  // memory is made, caches are warm
    (step % 2 == 1 ? with : plain).push_back(times[0].item<double>());
    if (step % 2 == 1) keeps.push_back(times[1].item<double>());
  }
  const double parameters = double(layers) * (double(width) * width + width);
  if (session.is_first())
    std::printf("plain %.3f\nwith %.3f\nkeep %.3f\nstate %.1f\nhere %d\n", median(plain), median(with), median(keeps),
                parameters * 12 / (1 << 20), kept.here() ? 1 : 0);
  session.shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  try {
    measure(std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]));
  } catch (const std::exception& error) {
    std::cerr << "kept_bench: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
