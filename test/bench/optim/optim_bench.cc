// A step of AdamW on PARAMETERS float32 parameters in eight tensors: LibTorch's torch::optim::AdamW, and
// ShardedOptimizer with state in float32 and in bfloat16; and copying as much memory. They take turns, RUNS times.
// Prints a line for each run: the nanoseconds for a parameter of the three, those for a byte that memcpy reads or
// writes, and those for a byte that a multiplication in place reads or writes.
//
// usage: optim_bench PARAMETERS THREADS RUNS
#include <ATen/Parallel.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "dtrain/optimizer.h"

namespace {

constexpr std::int64_t kTensors = 8;

double seconds_of(const std::function<void()>& act) {
  const auto start = std::chrono::steady_clock::now();
  act();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<at::Tensor> parameters_of(const at::Tensor& flat, const at::Tensor& gradients) {
  std::vector<at::Tensor> parameters;
  const auto size = flat.numel() / kTensors;
  for (std::int64_t i = 0; i < kTensors; ++i) {
    parameters.push_back(flat.narrow(0, i * size, size).detach().requires_grad_());
    parameters.back().mutable_grad() = gradients.narrow(0, i * size, size);
  }
  return parameters;
}

dtrain::ShardRun run_of(const at::Tensor& flat) {
  dtrain::ShardRun run{flat, {}};
  const auto size = flat.numel() / kTensors;
  for (std::int64_t i = 0; i < kTensors; ++i)
    run.shards.push_back({"p" + std::to_string(i), {size}, 0, flat.narrow(0, i * size, size)});
  return run;
}

void copy_bytes(const at::Tensor& to, const at::Tensor& from) {
  const auto bytes = static_cast<std::int64_t>(to.nbytes());
  const auto part = bytes / at::get_num_threads();
  auto* target = static_cast<char*>(to.mutable_data_ptr());
  const auto* source = static_cast<const char*>(from.const_data_ptr());
  at::parallel_for(0, bytes, part, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(target + begin, source + begin, static_cast<std::size_t>(end - begin));
  });
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    std::cerr << "usage: optim_bench PARAMETERS THREADS RUNS\n";
    return 2;
  }
  const std::int64_t size = std::atoll(arguments[1]) / kTensors * kTensors;
  torch::set_num_threads(std::atoi(arguments[2]));
  const auto gradients = torch::randn({size});
  const auto theirs = torch::randn({size}), ours = theirs.clone(), narrow = theirs.clone();
  torch::optim::AdamW adamw(parameters_of(theirs, gradients), torch::optim::AdamWOptions(1e-3));
  dtrain::ShardedOptimizerOptions options;
  dtrain::ShardedOptimizer optimizer(options, {run_of(ours)});
  options.state_dtype = at::kBFloat16;
  dtrain::ShardedOptimizer narrow_optimizer(options, {run_of(narrow)});
  const auto copied = torch::empty_like(gradients);
  const auto parameters = static_cast<double>(size);
  for (int run = -2; run < std::atoi(arguments[3]); ++run) {  // two to warm up
    const double their_s = seconds_of([&] { adamw.step(); });
    const double our_s = seconds_of([&] { optimizer.step({gradients}); });
    const double narrow_s = seconds_of([&] { narrow_optimizer.step({gradients}); });
    const double copy_s = seconds_of([&] { copy_bytes(copied, gradients); });
    const double scale_s = seconds_of([&] { copied.mul_(1.0); });
    if (run >= 0)
      std::cout << 1e9 * their_s / parameters << ' ' << 1e9 * our_s / parameters << ' ' << 1e9 * narrow_s / parameters
                << ' ' << 1e9 * copy_s / (2 * 4 * parameters) << ' ' << 1e9 * scale_s / (2 * 4 * parameters) << '\n';
  }
  const double apart = (theirs - ours).abs().max().item<double>();
  if (apart > 1e-5) std::cerr << "optim_bench: the parameters are " << apart << " apart\n";
  return apart > 1e-5 ? 1 : 0;
}
