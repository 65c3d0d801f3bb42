// Trains a small network on handwritten digits. The same binary runs alone, under `dtrain run` and under torchrun, with
// any strategy, and makes the same updates on any number of ranks: the global batches are the same, the loss is the
// mean over the global batch, and gradients are averaged over the ranks.
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <iostream>

#include "dtrain/dtrain.h"
#include "examples/digits/digits_data.h"
#include "examples/digits/progress.h"
#include "examples/digits/settings.h"

namespace digits {
namespace {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    conv1 = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 3).padding(1)));
    conv2 = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 3).padding(1)));
    fc1 = register_module("fc1", torch::nn::Linear(32 * 2 * 2, 64));
    fc2 = register_module("fc2", torch::nn::Linear(64, 10));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(conv1(x)), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    return fc2(torch::relu(fc1(x.flatten(1))));
  }

  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::Linear fc1{nullptr}, fc2{nullptr};
};
TORCH_MODULE(Net);

torch::ScalarType precision(const Settings& settings) { return settings.in_double ? torch::kDouble : torch::kFloat; }

Net make_net(const Settings& settings) {
  Net net;
  net->to(precision(settings));
  return net;
}

// A network this small gains nothing from threads, and ranks that share a machine's cores only get in each other's way.
void limit_threads() {
  if (std::getenv("OMP_NUM_THREADS") == nullptr) torch::set_num_threads(1);
}

// The loss of every step, for plot_loss.py. Written by rank 0.
class LossLog {
 public:
  explicit LossLog(const std::string& path) {
    if (path.empty()) return;
    file_.open(path);
    if (!file_) throw std::runtime_error("cannot write " + path);
    file_ << "step,loss\n" << std::setprecision(9);
  }
  void add(std::int64_t step, double loss) {
    if (file_.is_open()) file_ << step << ',' << loss << '\n';
  }

 private:
  std::ofstream file_;
};

class Trainer {
 public:
  Trainer(dtrain::Session& session, const Settings& settings, const Split& data)
      : session_(session),
        settings_(settings),
        data_(data),
        sampler_({.dataset_size = data.train.size(),
                  .global_batch_size = settings.batch_size,
                  .rank = session.rank(),
                  .world_size = session.world_size(),
                  .seed = settings.seed}),
        model_(session, [&] { return make_net(settings); }),
        optimizer_(model_.optimizer(dtrain::Sgd{.lr = settings.lr, .momentum = 0.9})) {}

  // Returns the mean loss of the last epoch.
  double train(Progress& progress, LossLog& log) {
    double mean = 0;
    for (int epoch = 0; epoch < settings_.epochs; ++epoch) {
      sampler_.set_epoch(static_cast<std::uint64_t>(epoch));
      double sum = 0;
      for (std::int64_t batch = 0; batch < sampler_.batches(); ++batch) {
        const double loss = update(batch);
        sum += loss * static_cast<double>(sampler_.global_size(batch));
        progress.step(epoch, batch, loss);
        log.add(epoch * sampler_.batches() + batch, loss);
      }
      mean = sum / static_cast<double>(data_.train.size());
      progress.epoch_done(epoch, mean);
    }
    return mean;
  }

  // The share of test digits recognised. Each rank looks at its part.
  double accuracy() {
    const torch::NoGradGuard no_grad;
    const dtrain::BatchSampler part({.dataset_size = data_.test.size(),
                                     .global_batch_size = data_.test.size(),
                                     .rank = session_.rank(),
                                     .world_size = session_.world_size(),
                                     .shuffle = false});
    const Samples mine = data_.test.select(part.local_indices(0)).to(session_.device());
    torch::Tensor right = (model_(mine.images).argmax(1) == mine.labels).sum();
    session_.all_reduce(right);
    return right.item<double>() / static_cast<double>(data_.test.size());
  }

 private:
  // One update on global batch `batch`; returns the mean loss over it, the same on every rank.
  double update(std::int64_t batch) {
    const Samples mine = data_.train.select(sampler_.local_indices(batch)).to(session_.device());
    const auto size = static_cast<double>(sampler_.global_size(batch));
    model_.zero_grad();
    const auto options = torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum);
    const torch::Tensor sum = torch::nn::functional::cross_entropy(model_(mine.images), mine.labels, options);
    // Gradients are averaged over the ranks, whose shares may differ by a sample: this makes it the global batch's
    // mean.
    (sum * (session_.world_size() / size)).backward();
    model_.step(optimizer_);
    torch::Tensor total = sum.detach().to(torch::kDouble);
    session_.all_reduce(total);
    return total.item<double>() / size;
  }

  dtrain::Session& session_;
  const Settings& settings_;
  const Split& data_;
  dtrain::BatchSampler sampler_;
  dtrain::Parallel<NetImpl> model_;
  dtrain::ShardedOptimizer optimizer_;
};

void run(const Settings& settings) {
  auto session = dtrain::init();
  limit_threads();
  torch::manual_seed(settings.seed);
  Samples digits = read_digits(settings.data);
  digits.images = digits.images.to(precision(settings));
  const Split data = split(digits);
  if (session.is_first()) {
    std::cout << "training on " << data.train.size() << " digits with " << session.world_size()
              << (session.world_size() == 1 ? " rank" : " ranks") << ", testing on " << data.test.size() << '\n'
              << std::flush;
  }
  Trainer trainer(session, settings, data);
  LossLog log(session.is_first() ? settings.loss_csv : "");
  Progress progress(settings.epochs, (data.train.size() + settings.batch_size - 1) / settings.batch_size,
                    !session.is_first());
  const double loss = trainer.train(progress, log);
  progress.finish(loss, trainer.accuracy());
  session.shutdown();
}

}  // namespace
}  // namespace digits

int main(int argc, char** argv) {
  const digits::Settings settings = digits::parse_settings(argc, argv);
  try {
    digits::run(settings);
  } catch (const c10::Error& error) {
    std::cerr << "train: " << error.what_without_backtrace() << '\n';
    return 1;
  } catch (const std::exception& error) {
    std::cerr << "train: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
