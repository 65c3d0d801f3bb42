// Fits a line to points: the smallest program that trains on any number of ranks.
//
//   ./train                              alone
//   dtrain run --nproc 2 ./train         two ranks, the same result
#include <dtrain/dtrain.h>

#include <cstdio>

int main() {
  auto session = dtrain::init();  // joins the job; alone, the world is this process

  torch::manual_seed(1);  // the same points on every rank
  const torch::Tensor x = torch::randn({1000, 3});
  const torch::Tensor y = x.matmul(torch::tensor({{2.0F}, {-3.0F}, {5.0F}})) + 7;

  dtrain::Ddp model(session, torch::nn::Linear(3, 1));  // rank 0's weights on every rank
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  dtrain::BatchSampler sampler(
      {.dataset_size = x.size(0), .global_batch_size = 50, .rank = session.rank(), .world_size = session.world_size()});

  double loss = 0;
  for (int epoch = 0; epoch < 5; ++epoch) {
    sampler.set_epoch(epoch);
    torch::Tensor total = torch::zeros({}, torch::kDouble);
    for (std::int64_t batch = 0; batch < sampler.batches(); ++batch) {
      const torch::Tensor mine = torch::tensor(sampler.local_indices(batch));
      const torch::Tensor errors = model(x.index_select(0, mine)) - y.index_select(0, mine);
      const torch::Tensor sum = errors.pow(2).sum();
      model.zero_grad();
      // Ddp averages gradients over the ranks. With this factor the result is the mean over the global batch, also
      // where the ranks' shares differ by a sample.
      (sum * (static_cast<double>(session.world_size()) / sampler.global_size(batch))).backward();
      optimizer.step();
      total += sum.detach();
    }
    session.all_reduce(total);  // over all ranks
    loss = total.item<double>() / x.size(0);
    if (session.is_first()) std::printf("epoch %d: loss %.4f\n", epoch, loss);
  }
  session.shutdown();
  return loss < 1e-3 ? 0 : 1;
}
