// The last step of docs/tutorial.md: training on any number of workers that goes on after a failure.
//
//   ./tutorial                                                alone
//   dtrain run --nproc 2 ./tutorial                           two workers
//   dtrain run --nproc 2 --strategy fsdp ./tutorial           two workers, each with a part of the model
//   dtrain run --nproc 2 --max-restarts 1 ./tutorial --fail   one worker fails, and the next round goes on
//
// With --no-batch-norm any number of workers makes the same updates.
#include <dtrain/dtrain.h>

#include <cmath>
#include <cstdio>
#include <set>
#include <stdexcept>
#include <string>

#include "problem.h"

namespace {

constexpr int kEpochs = 6;

// The mean loss of one epoch over all ranks.
double train_epoch(dtrain::Session& session, dtrain::Parallel<NetImpl>& model, dtrain::ShardedOptimizer& optimizer,
                   const dtrain::BatchSampler& sampler, const Samples& samples, bool fail) {
  model->train();
  torch::Tensor total = torch::zeros({}, samples.x.options().dtype(torch::kDouble));
  for (std::int64_t batch = 0; batch < sampler.batches(); ++batch) {
    if (fail && batch == 7) throw std::runtime_error("this failure is on purpose");
    const Samples mine = samples.at(torch::tensor(sampler.local_indices(batch)));
    const torch::Tensor sum = torch::cross_entropy_loss(model(mine.x), mine.y, {}, at::Reduction::Sum);
    model.zero_grad();
    // Gradients are averaged over the ranks. With this factor the result is the mean over the global batch.
    (sum * (static_cast<double>(session.world_size()) / sampler.global_size(batch))).backward();
    model.step(optimizer);
    total += sum.detach();
  }
  session.all_reduce(total);
  return total.item<double>() / samples.size();
}

// The rate depends on the epoch alone, so a checkpoint does not need it.
double rate_of(int epoch) { return 0.1 * std::pow(0.5, epoch / 2); }

struct Score {
  double loss, right;
};

// Each rank looks at its share, and all ranks get the same score.
Score evaluate(dtrain::Session& session, dtrain::Parallel<NetImpl>& model, const Samples& samples) {
  const torch::NoGradGuard no_grad;
  for (const torch::Tensor& buffer : model->buffers()) session.broadcast(buffer);  // rank 0's running statistics
  model->eval();
  const dtrain::BatchSampler sampler({.dataset_size = samples.size(),
                                      .global_batch_size = 100,
                                      .rank = session.rank(),
                                      .world_size = session.world_size(),
                                      .shuffle = false});
  torch::Tensor sums = torch::zeros({2}, samples.x.options().dtype(torch::kDouble));
  for (std::int64_t batch = 0; batch < sampler.batches(); ++batch) {
    const Samples mine = samples.at(torch::tensor(sampler.local_indices(batch)));
    const torch::Tensor scores = model(mine.x);
    sums[0] += torch::cross_entropy_loss(scores, mine.y, {}, at::Reduction::Sum);
    sums[1] += (scores.argmax(1) == mine.y).sum();
  }
  session.all_reduce(sums);
  return {sums[0].item<double>() / samples.size(), sums[1].item<double>() / samples.size()};
}

}  // namespace

int main(int argc, char** argv) {
  const std::set<std::string> flags(argv + 1, argv + argc);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // each line is out before anything can fail
  auto session = dtrain::init();             // joins the job; alone, the world is this process
  const bool fails =
      flags.contains("--fail") && session.env().restart_count == 0 && session.rank() == session.world_size() - 1;

  const auto [train, test] = draw_samples(session.device());
  dtrain::Parallel model(session, [&] { return Net(!flags.contains("--no-batch-norm")); });
  auto optimizer = model.optimizer(dtrain::Sgd{.lr = 0.1, .momentum = 0.9});
  dtrain::BatchSampler sampler({.dataset_size = train.size(),
                                .global_batch_size = 64,
                                .rank = session.rank(),
                                .world_size = session.world_size()});

  dtrain::Checkpoints checkpoints(session.world(), "checkpoint", {.keep_last = 2});
  const auto loaded = model.load(checkpoints, optimizer);  // nothing if there is no checkpoint
  if (session.is_first() && loaded)
    for (const std::string& why : loaded->skipped) std::fprintf(stderr, "warning: %s\n", why.c_str());
  for (auto epoch = loaded ? loaded->step : 0; epoch < kEpochs; ++epoch) {
    sampler.set_epoch(epoch);
    optimizer.set_lr(rate_of(epoch));
    const double loss = train_epoch(session, model, optimizer, sampler, train, fails && epoch == 3);
    model.save(checkpoints, epoch + 1, optimizer);
    if (session.is_first()) std::printf("epoch %d: loss %.4f\n", static_cast<int>(epoch), loss);
  }

  const Score score = evaluate(session, model, test);
  if (session.is_first()) std::printf("test: loss %.4f, %.1f %% right\n", score.loss, 100 * score.right);
  session.shutdown();
}
