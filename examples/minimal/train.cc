// Fits a line to points: the smallest program that trains on any number of ranks.
//
//   ./train                                          alone
//   dtrain run --nproc 2 ./train                     two ranks, the same result
//   dtrain run --nproc 2 --strategy fsdp ./train     the same, and each rank keeps a part of the model
#include <dtrain/dtrain.h>

#include <cstdio>

int main() {
  auto session = dtrain::init();  // joins the job; alone, the world is this process

  torch::manual_seed(1);  // the same points on every rank
  const torch::TensorOptions here(session.device());
  const torch::Tensor x = torch::randn({1000, 3}, here);
  const torch::Tensor y = x.matmul(torch::tensor({{2.0F}, {-3.0F}, {5.0F}}, here)) + 7;

  dtrain::Parallel model(session, [] { return torch::nn::Linear(3, 1); });  // the ranks begin with the same weights
  auto optimizer = model.optimizer(dtrain::Sgd{.lr = 0.1});
  dtrain::BatchSampler sampler(
      {.dataset_size = x.size(0), .global_batch_size = 50, .rank = session.rank(), .world_size = session.world_size()});

  double loss = 0;
  for (int epoch = 0; epoch < 5; ++epoch) {
    sampler.set_epoch(epoch);
    torch::Tensor total = torch::zeros({}, here.dtype(torch::kDouble));
    for (std::int64_t batch = 0; batch < sampler.batches(); ++batch) {
      const torch::Tensor mine = torch::tensor(sampler.local_indices(batch), here);
      const torch::Tensor errors = model(x.index_select(0, mine)) - y.index_select(0, mine);
      const torch::Tensor sum = errors.pow(2).sum();
      model.zero_grad();
      // Gradients are averaged over the ranks. With this factor the result is the mean over the global batch, also
      // where the ranks' shares differ by a sample.
      (sum * (static_cast<double>(session.world_size()) / sampler.global_size(batch))).backward();
      model.step(optimizer);
      total += sum.detach();
    }
    session.all_reduce(total);  // over all ranks
    loss = total.item<double>() / x.size(0);
    if (session.is_first()) std::printf("epoch %d: loss %.4f\n", epoch, loss);
  }
  session.shutdown();
  return loss < 1e-3 ? 0 : 1;
}
