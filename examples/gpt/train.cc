// Trains a small GPT on the characters of a text. The same binary runs alone, under `dtrain run` and under torchrun,
// and with every strategy: `dtrain run --nproc 2 --strategy fsdp ./gpt`. The global batches are the same on any number
// of ranks, and so are the losses, but for the order in which numbers are added.
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "dtrain/dtrain.h"
#include "examples/gpt/config.h"
#include "examples/gpt/corpus.h"
#include "examples/gpt/generate.h"
#include "examples/gpt/model.h"
#include "examples/gpt/settings.h"

namespace gpt {
namespace {

caffe2::TypeMeta type_named(const std::string& name) {
  if (name == "float64") return caffe2::TypeMeta::Make<double>();
  if (name == "bfloat16") return caffe2::TypeMeta::Make<at::BFloat16>();
  return caffe2::TypeMeta::Make<float>();
}

dtrain::ShardedOptimizerOptions optimizer_options(const Settings& settings) {
  const dtrain::AdamW adamw{.lr = settings.lr, .betas = {0.9, 0.95}, .weight_decay = 0.1};
  dtrain::ShardedOptimizerOptions options;
  options.algorithm = adamw;
  if (settings.optimizer == "muon")
    options.algorithm =
        dtrain::Muon{.lr = settings.lr, .adjust_lr_fn = dtrain::MuonRate::match_rms_adamw, .adamw = adamw};
  if (settings.algorithm) options.algorithm = *settings.algorithm;
  if (auto* muon = std::get_if<dtrain::Muon>(&options.algorithm)) muon->adamw_names = {"embed", "place"};
  options.groups = {{.dims_max = 1, .weight_decay = 0.0}};
  return options;
}

dtrain::ParallelOptions parallel_options(const Settings& settings) {
  dtrain::ParallelOptions options;
  if (settings.optimizer == "muon") {
    options.placement = [](const std::string& name, const torch::Tensor& parameter) {
      const bool matrix = parameter.dim() == 2 && name.find("embed") == std::string::npos && name.find("place") != 0;
      return matrix ? dtrain::Placement::owned() : dtrain::Placement{};
    };
  }
  return options;
}

class Trainer {
 public:
  Trainer(dtrain::Session& session, const Settings& settings, const Corpus& corpus)
      : session_(session),
        settings_(settings),
        corpus_(corpus),
        mine_(settings.global_batch / session.world_size()),
        model_(
            session,
            [&] {
              return Gpt(ModelOptions{.characters = corpus.characters(),
                                      .context = settings.context,
                                      .width = settings.width,
                                      .depth = settings.depth,
                                      .heads = settings.heads,
                                      .recompute = settings.recompute});
            },
            parallel_options(settings)),
        optimizer_(model_.optimizer(optimizer_options(settings))),
        kept_(session),
        schedule_(dtrain::after_warmup(std::max<std::int64_t>(1, settings.steps / 20),
                                       dtrain::cosine(std::max<std::int64_t>(1, settings.steps), 0.1), 0.1)) {
    if (!settings.save.empty())
      checkpoints_.emplace(session.world(), settings.save, dtrain::CheckpointOptions{.keep_last = 2});
  }

  void train() {
    std::int64_t step = resume();
    std::ofstream losses = loss_file(step);
    for (; step < settings_.steps; ++step) {
      const auto began = std::chrono::steady_clock::now();
      const double loss = update(step);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
      if (losses.is_open()) losses << step << ' ' << took.count() << ' ' << loss << '\n' << std::flush;
      model_.keep(kept_, step + 1, optimizer_);
      if (session_.is_first() && (step % 50 == 0 || step + 1 == settings_.steps))
        std::cout << "step " << step << "  loss " << std::fixed << std::setprecision(4) << loss << '\n' << std::flush;
      if (checkpoints_) checkpoints_->poll();
      if (checkpoints_ && ((step + 1) % settings_.save_every == 0 || step + 1 == settings_.steps))
        model_.save_async(*checkpoints_, step + 1, optimizer_);
    }
    if (checkpoints_) checkpoints_->wait();
    const std::string text = generate(model_, corpus_, settings_, session_.device());
    if (session_.is_first() && !text.empty()) std::cout << text << '\n';
  }

 private:
  std::int64_t resume() {
    const auto loaded =
        settings_.resume ? model_.load(*checkpoints_, kept_, optimizer_) : model_.load(kept_, optimizer_);
    if (session_.is_first()) warn(loaded ? loaded->skipped : std::vector{kept_.refused()});
    if (session_.is_first() && loaded) std::cout << "going on after step " << loaded->step << '\n' << std::flush;
    return loaded ? loaded->step : 0;
  }

  // Of what could not be loaded, although it was there.
  static void warn(const std::vector<std::string>& lines) {
    for (const std::string& line : lines)
      if (!line.empty()) std::cerr << "gpt: warning: " << line << '\n';
  }

  // A run that goes on keeps the lines of the steps before.
  std::ofstream loss_file(std::int64_t step) {
    std::ofstream file;
    if (settings_.loss_file.empty() || !session_.is_first()) return file;
    std::ostringstream before;
    if (step > 0) {
      std::ifstream old(settings_.loss_file);
      std::string line;
      for (std::int64_t i = 0; i < step && std::getline(old, line); ++i) before << line << '\n';
    }
    file.open(settings_.loss_file);
    if (!file) throw std::runtime_error("cannot write " + settings_.loss_file);
    file << before.str() << std::setprecision(17);
    return file;
  }

  // One update; returns the mean loss over the global batch, the same on every rank.
  double update(std::int64_t step) {
    optimizer_.set_lr(settings_.rate ? settings_.rate(step) : settings_.lr * schedule_(step));
    model_.zero_grad();
    torch::Tensor mean = torch::zeros({}, torch::TensorOptions(torch::kDouble).device(session_.device()));
    const std::int64_t last = settings_.micro_batches - 1;
    for (std::int64_t each = 0; each < last; ++each) {
      const auto quiet = model_.no_sync();
      mean += learn(step, each);
    }
    mean += learn(step, last);
    model_.clip_grad_norm(settings_.max_norm);
    model_.step(optimizer_);
    session_.all_reduce(mean, c10d::ReduceOp::AVG);
    return mean.item<double>();
  }

  // Forward and backward of one of this rank's micro-batches; returns its part of the rank's mean loss.
  torch::Tensor learn(std::int64_t step, std::int64_t micro_batch) {
    const std::int64_t count = mine_ / settings_.micro_batches;
    const auto batch = corpus_.batch(settings_.seed, step, session_.rank() * mine_ + micro_batch * count, count);
    const torch::Tensor scores = model_(batch.inputs.to(session_.device()));
    torch::Tensor loss = torch::nn::functional::cross_entropy(
        scores.flatten(0, 1).to(torch::kFloat64 == scores.scalar_type() ? torch::kFloat64 : torch::kFloat32),
        batch.targets.to(session_.device()).flatten());
    loss = loss / settings_.micro_batches;
    loss.backward();
    return loss.detach().to(torch::kDouble);
  }

  dtrain::Session& session_;
  const Settings& settings_;
  const Corpus& corpus_;
  std::int64_t mine_;  // stretches of each rank
  dtrain::Parallel<GptImpl> model_;
  dtrain::ShardedOptimizer optimizer_;
  dtrain::KeptState kept_;  // of `dtrain run --keep-state`
  dtrain::Schedule schedule_;
  std::optional<dtrain::Checkpoints> checkpoints_;
};

void run(const Settings& typed) {
  auto session = dtrain::init();
  const Settings settings = with_config(typed, session.training_config(), session.world_size());
  if (std::getenv("OMP_NUM_THREADS") == nullptr && session.world_size() > 1) torch::set_num_threads(1);
  if (settings.global_batch % session.world_size() != 0)
    throw std::runtime_error("--global-batch " + std::to_string(settings.global_batch) + " must be a multiple of the " +
                             std::to_string(session.world_size()) + " ranks");
  if (settings.global_batch / session.world_size() % settings.micro_batches != 0)
    throw std::runtime_error("--micro-batches " + std::to_string(settings.micro_batches) + " must divide the " +
                             std::to_string(settings.global_batch / session.world_size()) +
                             " stretches of each rank, which are --global-batch divided by the ranks");
  torch::manual_seed(settings.seed);
  torch::set_default_dtype(type_named(settings.dtype));
  const Corpus corpus(settings.data, settings.context);
  if (session.is_first())
    std::cout << corpus.size() << " characters, " << corpus.characters() << " different ones; "
              << name_of(session.env().strategy.kind) << " on " << session.world_size()
              << (session.world_size() == 1 ? " rank" : " ranks") << '\n'
              << std::flush;
  Trainer(session, settings, corpus).train();
  session.shutdown();
}

}  // namespace
}  // namespace gpt

int main(int argc, char** argv) {
  const gpt::Settings settings = gpt::parse_settings(argc, argv);
  try {
    gpt::run(settings);
  } catch (const c10::Error& error) {
    std::cerr << "gpt: " << error.what_without_backtrace() << '\n';
    return 1;
  } catch (const std::exception& error) {
    std::cerr << "gpt: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
