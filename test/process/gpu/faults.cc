// Ways to fail in the middle of training on GPUs.
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "test/process/gpu/checks.h"

namespace dtrain::gpu_test {
namespace {

// On the guilty rank, instead of its next step. `inside`: the others are in the collective that this rank has queued
// too.
int end_by(const std::string& way, const at::Device& device) {
  if (way == "kill" || way == "inside") std::raise(SIGKILL);
  if (way == "segv") std::raise(SIGSEGV);
  if (way == "throw") throw std::runtime_error("cannot read shard 7");
  if (way == "late" || way == "late_cpu") ::pause();
  // More than any GPU has, which torch::empty asks for at once.
  if (way == "memory") at::empty({std::int64_t{1} << 42}, at::TensorOptions(device).dtype(at::kByte));
  if (way == "assert") {
    const at::Tensor table = at::zeros({4}, at::TensorOptions(device));
    std::puts(fmt::format(
                  "{}", table.index_select(0, at::full({1}, 100, table.options().dtype(at::kLong))).sum().item<float>())
                  .c_str());
  }
  return way == "return0" ? 0 : 1;
}

}  // namespace

int fail(const std::string& way, int culprit) {
  InitOptions options;
  options.collective_timeout = std::chrono::seconds{5};
  auto session = init(options);
  const bool guilty = session.rank() == culprit;
  const at::Tensor tensor = at::ones({1 << 20}, at::TensorOptions(session.device()));
  torch::nn::Linear layer(64, 64);
  layer->to(session.device());
  Ddp model(session, layer);
  const auto step = [&] {
    model(at::ones({4, 64}, at::TensorOptions(session.device()))).sum().backward();
    session.all_reduce(tensor);
    return tensor.sum().item<float>();
  };
  for (int i = 0; i < 3; ++i) step();
  std::puts("training");
  std::fflush(stdout);
  session.barrier();
  if (guilty && way == "inside") {
    keep_busy(session.device(), 8'000);
    session.all_reduce(tensor);
  }
  if (guilty) return end_by(way, session.device());
  if (way == "late_cpu") session.barrier();
  if (way == "inside") session.all_reduce(tensor);
  for (int i = 0; i < 1'000'000; ++i) step();
  return 0;
}

}  // namespace dtrain::gpu_test
