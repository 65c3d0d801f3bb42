// An ordinary training loop in one process, without dtrain. docs/tutorial.md begins here.
#include <cstdio>

#include "problem.h"

int main() {
  const auto [train, test] = draw_samples();
  Net net;
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  torch::optim::StepLR schedule(optimizer, /*step_size=*/2, /*gamma=*/0.5);

  for (int epoch = 0; epoch < 6; ++epoch) {
    double sum = 0;
    for (const torch::Tensor& batch : torch::randperm(train.size(), torch::kLong).split(64)) {
      const Samples samples = train.at(batch);
      const torch::Tensor loss = torch::cross_entropy_loss(net(samples.x), samples.y);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      sum += loss.item<double>() * samples.size();
    }
    schedule.step();
    std::printf("epoch %d: loss %.4f\n", epoch, sum / train.size());
  }

  const torch::NoGradGuard no_grad;
  net->eval();  // batch norm uses its running statistics
  const torch::Tensor scores = net(test.x);
  const double loss = torch::cross_entropy_loss(scores, test.y).item<double>();
  const double right = (scores.argmax(1) == test.y).sum().item<double>();
  std::printf("test: loss %.4f, %.1f %% right\n", loss, 100 * right / test.size());
}
