// gpu_bench STEPS LAYERS WIDTH BATCH, under a launcher: training of LAYERS linear layers of WIDTH by Ddp and by
// Parallel with fsdp, on the device of the session, and collectives. As gpu_worker.py does the same with torch. Prints
// JSON: microseconds, and bytes.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "dtrain/dtrain.h"
#include "test/bench/timing.h"
#ifdef USE_C10D_NCCL
#include <c10/cuda/CUDACachingAllocator.h>
#endif

namespace {

using dtrain::Session, dtrain::bench::median;

void wait(const Session& session) {
  if (session.device().is_cuda()) torch::cuda::synchronize(session.device().index());
}

// Of one call, in microseconds: of so many together, between two times at which the device is idle.
double measure(Session& session, int rows, int calls, const std::function<void()>& call) {
  for (int i = 0; i < calls; ++i) call();
  std::vector<double> times;
  for (int row = 0; row < rows; ++row) {
    wait(session);
    session.barrier();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    wait(session);
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() /
                    calls);
  }
  return median(times);
}

// Bytes at most since the last call.
long peak(const Session& session) {
  long bytes = 0;
#ifdef USE_C10D_NCCL
  namespace memory = c10::cuda::CUDACachingAllocator;
  if (session.device().is_cuda()) {
    bytes = memory::getDeviceStats(session.device().index()).allocated_bytes[0].peak;
    memory::resetPeakStats(session.device().index());
  }
#endif
  return bytes + 0 * session.rank();
}

struct DenseImpl : torch::nn::Module {
  explicit DenseImpl(int width) : linear(register_module("linear", torch::nn::Linear(width, width))) {}
  torch::Tensor forward(const torch::Tensor& x) { return torch::relu(linear(x)); }
  torch::nn::Linear linear;
};
DTRAIN_UNIT(Dense);

std::string fsdp(Session& session, int rows, int layers, int width, int batch) {
  peak(session);
  dtrain::ParallelOptions options;
  options.strategy = dtrain::Strategy{.kind = dtrain::StrategyKind::fsdp};
  dtrain::Parallel model(
      session,
      [&] {
        torch::nn::Sequential net;
        for (int i = 0; i < layers; ++i) net->push_back(Dense(width));
        return net;
      },
      options);
  dtrain::ShardedOptimizer optimizer = model.optimizer(dtrain::AdamW{.lr = 1e-3});
  const auto x = torch::randn({batch, width}, session.device());
  const double step = measure(session, rows, 10, [&] {
    model.zero_grad();
    model(x).square().mean().backward();
    model.step(optimizer);
  });
  return fmt::format("\"fsdp step\": {:.2f}, \"fsdp peak bytes\": {}, ", step, peak(session));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const int rows = std::stoi(argv[1]), layers = std::stoi(argv[2]), width = std::stoi(argv[3]),
            batch = std::stoi(argv[4]);
  torch::set_num_threads(1);
  Session session = dtrain::init();
  std::string result;
  for (const bool views : {false, true}) {
    torch::nn::Sequential net;
    for (int i = 0; i < layers; ++i) {
      net->push_back(torch::nn::Linear(width, width));
      net->push_back(torch::nn::ReLU());
    }
    net->to(session.device());
    dtrain::DdpOptions options;
    options.gradient_as_bucket_view = views;
    dtrain::Ddp model(session, net, options);
    torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.01));
    const auto x = torch::randn({batch, width}, session.device());
    const double step = measure(session, rows, 10, [&] {
      sgd.zero_grad(false);
      model(x).square().mean().backward();
      sgd.step();
    });
    result += fmt::format("\"{}\": {:.2f}, ", views ? "ddp step, views" : "ddp step", step);
    if (!views) result += fmt::format("\"peak bytes\": {}, ", peak(session));
  }
  result += fsdp(session, rows, layers, width, batch);
  for (const std::int64_t bytes : {1L << 10, 1L << 20, 1L << 26}) {
    const auto tensor = torch::zeros({bytes / 4}, session.device());
    result += fmt::format("\"all_reduce {}\": {:.2f}, ", bytes,
                          measure(session, rows, 20, [&] { session.all_reduce(tensor); }));
  }
  if (session.is_first()) std::printf("{%s}\n", result.substr(0, result.size() - 2).c_str());
  session.shutdown();
}
