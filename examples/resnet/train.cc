// Trains a ResNet with dtrain, as a benchmark of data parallel training does: so many images per update and process,
// Adam, a fixed number of epochs, and what counts is images per second. The same binary runs alone, under `dtrain run`
// and under torchrun, on CPUs and on GPUs.
#include <ATen/Parallel.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>

#include "dtrain/dtrain.h"
#include "examples/resnet/images.h"
#include "examples/resnet/model.h"
#include "examples/resnet/replica.h"
#include "examples/resnet/report.h"
#include "examples/resnet/settings.h"

namespace resnet {
namespace {

// More threads than cores would make every process wait for the others'. `dtrain run` shares the cores out in the same
// way, by OMP_NUM_THREADS.
void limit_threads(const Settings& settings, const dtrain::Session& session) {
  if (settings.threads > 0) {
    at::set_num_threads(settings.threads);
  } else if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    cpu_set_t allowed;
    const int cores = ::sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
    at::set_num_threads(std::max(1, cores / session.local_world_size()));
  }
}

std::int64_t global_batch(const Settings& settings, const dtrain::Session& session) {
  if (!settings.strong) return settings.batch * session.world_size();
  // Batch norm needs two.
  if (settings.batch < 2 * session.world_size()) {
    throw std::runtime_error("--strong: --batch " + std::to_string(settings.batch) + " is less than two images for " +
                             "each of " + std::to_string(session.world_size()) + " processes");
  }
  return settings.batch;
}

torch::ScalarType precision(const Settings& settings) { return settings.in_double ? torch::kDouble : torch::kFloat; }

// Of the images that a process has looked at, then of all processes.
struct Score {
  torch::Tensor sums = torch::zeros({2}, torch::kDouble);  // of the losses, and right answers

  void add(const torch::Tensor& loss_sum, const torch::Tensor& logits, const torch::Tensor& labels) {
    sums = sums + torch::stack({loss_sum.detach(), (logits.argmax(1) == labels).sum()}).to(torch::kCPU, torch::kDouble);
  }
  double loss() const { return sums[0].item<double>(); }
  double right() const { return sums[1].item<double>(); }
};

torch::Tensor loss_sum(const torch::Tensor& logits, const torch::Tensor& labels) {
  const auto options = torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum);
  return torch::nn::functional::cross_entropy(logits, labels, options);
}

class Trainer {
 public:
  Trainer(dtrain::Session& session, const Settings& settings, const Split& data, Replica& replica)
      : session_(session),
        settings_(settings),
        data_(data),
        replica_(replica),
        // The last images of an epoch that fill no batch are left out: batch norm should not see a few alone.
        sampler_({.dataset_size = data.train->size(),
                  .global_batch_size = global_batch(settings, session),
                  .rank = session.rank(),
                  .world_size = session.world_size(),
                  .seed = settings.seed,
                  .drop_last = true}) {
    if (settings.epochs > 0 && sampler_.batches() == 0) {
      throw std::runtime_error(
          "there are " + std::to_string(data.train->size()) + " images to train on, fewer than the " +
          std::to_string(global_batch(settings, session)) + " of one update; give more, or a smaller --batch");
    }
  }

  void train(Report& report) {
    for (int epoch = 0; epoch < settings_.epochs; ++epoch) {
      sampler_.set_epoch(static_cast<std::uint64_t>(epoch));
      session_.barrier();
      const auto begin = std::chrono::steady_clock::now();
      double images = 0;
      Score total;
      for (std::int64_t batch = 0; batch < sampler_.batches(); ++batch) {
        const Score score = update(batch);
        const auto size = static_cast<double>(sampler_.global_size(batch));
        total.sums += score.sums;
        images += size;
        report.step(batch, sampler_.batches(), score.loss() / size);
      }
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      report.epoch({total.loss() / images, total.right() / images, images / seconds});
    }
  }

  // Sums over the test images. Each process looks at its part, with rank 0's running means and variances.
  Score test() {
    const torch::NoGradGuard no_grad;
    replica_.share_buffers();
    replica_.network().eval();
    const dtrain::BatchSampler parts({.dataset_size = data_.test->size(),
                                      .global_batch_size = settings_.batch * session_.world_size(),
                                      .rank = session_.rank(),
                                      .world_size = session_.world_size(),
                                      .shuffle = false});
    Score score;
    for (std::int64_t batch = 0; batch < parts.batches(); ++batch) {
      const auto [x, labels] = inputs(data_.test->load(parts.local_indices(batch)));
      const torch::Tensor logits = replica_.forward(x);
      score.add(loss_sum(logits, labels), logits, labels);
    }
    replica_.network().train();
    session_.all_reduce(score.sums);
    return score;
  }

 private:
  std::pair<torch::Tensor, torch::Tensor> inputs(const Samples& samples) const {
    return {as_input(samples.pixels, settings_.image_size, session_.device()).to(precision(settings_)),
            samples.labels.to(session_.device())};
  }

  // One update on global batch `batch`; returns the sums over all of it, the same on every rank.
  Score update(std::int64_t batch) {
    const auto [x, labels] = inputs(data_.train->load(sampler_.local_indices(batch)));
    const torch::Tensor logits = replica_.forward(x);
    const torch::Tensor sum = loss_sum(logits, labels);
    // Gradients are averaged over the ranks, whose shares may differ by an image: this makes it the batch's mean.
    replica_.step(sum * (session_.world_size() / static_cast<double>(sampler_.global_size(batch))));
    Score score;
    score.add(sum, logits, labels);
    session_.all_reduce(score.sums);
    return score;
  }

  dtrain::Session& session_;
  const Settings& settings_;
  const Split& data_;
  Replica& replica_;
  dtrain::BatchSampler sampler_;
};

void run(const Settings& settings) {
  auto session = dtrain::init();
  limit_threads(settings, session);
  torch::manual_seed(settings.seed);
  const Split data = settings.files.empty()
                         ? synthetic_images(settings.synthetic, settings.image_size, settings.classes)
                         : cifar_images(settings.files, settings.classes);
  const auto build = [&] {
    ResNet network(settings.depth, settings.classes);
    if (!settings.init.empty()) load_weights(*network, settings.init);
    network->to(session.device(), precision(settings));
    return network;
  };
  {
    const auto replica = (settings.horovod ? horovod_replica : parallel_replica)(session, build, settings.lr);
    Trainer trainer(session, settings, data, *replica);
    Report report(settings,
                  {.ranks = session.world_size(),
                   .threads = at::get_num_threads(),
                   .device = session.device().is_cuda() ? "GPU" : "CPU",
                   .parameters = parameter_count(replica->network()),
                   .global_batch = global_batch(settings, session),
                   .train_images = data.train->size(),
                   .test_images = data.test->size()},
                  !session.is_first());
    trainer.train(report);
    const Score test = trainer.test();
    const auto images = static_cast<double>(data.test->size());
    report.finish(test.loss() / images, test.right() / images);
    if (!settings.save.empty()) replica->save(settings.save);
  }
  session.shutdown();
}

}  // namespace
}  // namespace resnet

int main(int argc, char** argv) {
  const resnet::Settings settings = resnet::parse_settings(argc, argv);
  try {
    resnet::run(settings);
  } catch (const c10::Error& error) {
    std::cerr << "resnet: " << error.what_without_backtrace() << '\n';
    return 1;
  } catch (const std::exception& error) {
    std::cerr << "resnet: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
