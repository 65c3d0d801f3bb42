// One rank of the training that ddp_parity.py repeats with torch's own DDP. Saves for it, where this is rank 0: the
// weights before and after, the inputs of all ranks, the sums of their losses, and with PowerSGD the first Q of each
// matrix. Without it MATRIX_RANK is 0. All are saved as CPU tensors, wherever it trains.
//
// usage: ddp_steps FILE STEPS MATRIX_RANK ERROR_FEEDBACK EPSILON
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iostream>

#include "dtrain/dtrain.h"
#include "strategies/ddp/power_sgd_plan.h"

namespace {

constexpr int kStartStep = 2;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("0", torch::nn::Linear(30, 24));
    second = register_module("2", torch::nn::Linear(24, 20));
    to(torch::kDouble);
  }
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::tanh(first(x))); }
  torch::nn::Linear first{nullptr}, second{nullptr};
};
TORCH_MODULE(Net);

using Saved = c10::Dict<std::string, torch::Tensor>;

void keep(Saved& saved, const std::string& when, const Net& net) {
  for (const auto& item : net->named_parameters())
    saved.insert(when + item.key(), item.value().detach().to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true));
}

void keep_first_qs(Saved& saved, const Net& net, const dtrain::PowerSgd& options) {
  std::size_t index = 0;
  for (const auto& item : net->named_parameters()) {
    const auto& parameter = item.value();
    if (parameter.dim() == 2) {
      const auto columns = parameter.size(1);
      const auto numbers = dtrain::random_numbers(options.seed, index, 0, columns * options.matrix_rank);
      saved.insert("q " + item.key(), torch::tensor(numbers, torch::kDouble).view({columns, options.matrix_rank}));
    }
    ++index;
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 6) {
    std::cerr << "usage: ddp_steps FILE STEPS MATRIX_RANK ERROR_FEEDBACK EPSILON\n";
    return 2;
  }
  torch::set_num_threads(1);
  const int steps = std::atoi(arguments[2]);
  dtrain::DdpOptions options;
  if (const int matrix_rank = std::atoi(arguments[3]); matrix_rank > 0) {
    options.power_sgd.emplace();
    options.power_sgd->matrix_rank = matrix_rank;
    options.power_sgd->start_step = kStartStep;
    options.power_sgd->error_feedback = std::atoi(arguments[4]) != 0;
    options.power_sgd->orthogonalization_epsilon = std::atof(arguments[5]);
  }

  auto session = dtrain::init();
  torch::manual_seed(1);
  Net net;
  torch::Tensor x = torch::randn({steps, session.world_size(), 16, 30}, torch::kDouble);
  Saved saved;
  saved.insert("x", x);
  keep(saved, "before ", net);
  if (options.power_sgd) keep_first_qs(saved, net, *options.power_sgd);
  x = x.to(session.device());
  net->to(session.device());
  dtrain::Ddp model(session, net, options);
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  const torch::Tensor losses = torch::zeros(steps, torch::kDouble);
  for (int step = 0; step < steps; ++step) {
    model.zero_grad();
    const torch::Tensor mine = x[step][session.rank()];
    const torch::Tensor loss = (model(mine) - mine.narrow(1, 0, 20).sin()).pow(2).sum(1).mean();
    losses[step] = loss.detach();
    loss.backward();
    sgd.step();
  }
  session.all_reduce(losses);
  saved.insert("losses", losses);
  keep(saved, "after ", net);
  if (session.is_first()) {
    const std::vector<char> bytes = torch::pickle_save(saved);
    std::ofstream(arguments[1], std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  session.shutdown();
  return 0;
}
