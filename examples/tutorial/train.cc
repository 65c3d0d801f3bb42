// The last step of docs/tutorial.md: training on any number of workers that goes on after a failure.
//
//   ./tutorial                                                alone
//   dtrain run --nproc 2 ./tutorial                           two workers
//   dtrain run --nproc 2 --max-restarts 1 ./tutorial --fail   one worker fails, and the next round goes on
//
// With --no-batch-norm any number of workers makes the same updates.
#include <dtrain/dtrain.h>
#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <string>

#include "problem.h"

namespace {

constexpr int kEpochs = 6;
const std::string kCheckpoint = "checkpoint.pt";

// The mean loss of one epoch over all ranks.
double train_epoch(dtrain::Session& session, dtrain::Ddp<NetImpl>& model, torch::optim::Optimizer& optimizer,
                   const dtrain::BatchSampler& sampler, const Samples& samples, bool fail) {
  model->train();
  torch::Tensor total = torch::zeros({}, torch::kDouble);
  for (std::int64_t batch = 0; batch < sampler.batches(); ++batch) {
    if (fail && batch == 7) throw std::runtime_error("this failure is on purpose");
    const Samples mine = samples.at(torch::tensor(sampler.local_indices(batch)));
    const torch::Tensor sum = torch::cross_entropy_loss(model(mine.x), mine.y, {}, at::Reduction::Sum);
    model.zero_grad();
    // Ddp averages gradients over the ranks. With this factor the result is the mean over the global batch.
    (sum * (static_cast<double>(session.world_size()) / sampler.global_size(batch))).backward();
    optimizer.step();
    total += sum.detach();
  }
  session.all_reduce(total);
  return total.item<double>() / samples.size();
}

// The rate depends on the epoch alone, so a checkpoint does not need it.
void set_rate(torch::optim::Optimizer& optimizer, int epoch) {
  const double rate = 0.1 * std::pow(0.5, epoch / 2);
  for (auto& group : optimizer.param_groups()) group.options().set_lr(rate);
}

struct Score {
  double loss, right;
};

// Each rank looks at its share, and all ranks get the same score.
Score evaluate(dtrain::Session& session, Net net, const Samples& samples) {
  const torch::NoGradGuard no_grad;
  for (const torch::Tensor& buffer : net->buffers()) session.broadcast(buffer);  // rank 0's running statistics
  net->eval();
  const dtrain::BatchSampler sampler({.dataset_size = samples.size(),
                                      .global_batch_size = 100,
                                      .rank = session.rank(),
                                      .world_size = session.world_size(),
                                      .shuffle = false});
  torch::Tensor sums = torch::zeros({2}, torch::kDouble);
  for (std::int64_t batch = 0; batch < sampler.batches(); ++batch) {
    const Samples mine = samples.at(torch::tensor(sampler.local_indices(batch)));
    const torch::Tensor scores = net(mine.x);
    sums[0] += torch::cross_entropy_loss(scores, mine.y, {}, at::Reduction::Sum);
    sums[1] += (scores.argmax(1) == mine.y).sum();
  }
  session.all_reduce(sums);
  return {sums[0].item<double>() / samples.size(), sums[1].item<double>() / samples.size()};
}

// Rank 0 alone calls this. The file always has a whole checkpoint, the old one or the new one.
void save(const Net& net, const torch::optim::Optimizer& optimizer, int epochs) {
  torch::serialize::OutputArchive file;
  torch::serialize::OutputArchive net_part(file.compilation_unit());
  torch::serialize::OutputArchive optimizer_part(file.compilation_unit());
  net->save(net_part);
  optimizer.save(optimizer_part);
  file.write("net", net_part);
  file.write("optimizer", optimizer_part);
  file.write("epochs", torch::tensor(epochs, torch::kLong));

  const std::string fresh = kCheckpoint + ".new";
  file.save_to(fresh);
  const int descriptor = ::open(fresh.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0 || ::fsync(descriptor) != 0) throw std::runtime_error("cannot flush " + fresh + " to the disk");
  ::close(descriptor);
  std::filesystem::rename(fresh, kCheckpoint);
}

// Returns how many epochs are done. Rank 0 alone reads the file. Ddp gives its weights to the other ranks later.
int resume(dtrain::Session& session, Net net, torch::optim::Optimizer& optimizer) {
  torch::Tensor epochs = torch::zeros({}, torch::kLong);
  if (session.is_first() && std::filesystem::exists(kCheckpoint)) {
    torch::serialize::InputArchive file, net_part, optimizer_part;
    file.load_from(kCheckpoint);
    file.read("net", net_part);
    file.read("optimizer", optimizer_part);
    file.read("epochs", epochs);
    net->load(net_part);
    optimizer.load(optimizer_part);
  }
  session.broadcast(epochs);
  dtrain::hvd::broadcast_optimizer_state(session, optimizer);
  return epochs.item<int>();
}

}  // namespace

int main(int argc, char** argv) {
  const std::set<std::string> flags(argv + 1, argv + argc);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // each line is out before anything can fail
  auto session = dtrain::init();             // joins the job; alone, the world is this process
  const bool fails =
      flags.contains("--fail") && session.env().restart_count == 0 && session.rank() == session.world_size() - 1;

  const auto [train, test] = draw_samples();
  Net net(!flags.contains("--no-batch-norm"));
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  const int done = resume(session, net, optimizer);
  dtrain::Ddp model(session, net);  // rank 0's weights and running statistics on every rank
  dtrain::BatchSampler sampler({.dataset_size = train.size(),
                                .global_batch_size = 64,
                                .rank = session.rank(),
                                .world_size = session.world_size()});

  for (int epoch = done; epoch < kEpochs; ++epoch) {
    sampler.set_epoch(epoch);
    set_rate(optimizer, epoch);
    const double loss = train_epoch(session, model, optimizer, sampler, train, fails && epoch == 3);
    if (session.is_first()) {
      save(net, optimizer, epoch + 1);
      std::printf("epoch %d: loss %.4f\n", epoch, loss);
    }
  }

  const Score score = evaluate(session, net, test);
  if (session.is_first()) std::printf("test: loss %.4f, %.1f %% right\n", score.loss, 100 * score.right);
  session.shutdown();
}
