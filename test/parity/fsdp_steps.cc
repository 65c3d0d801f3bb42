// One rank of the training that fsdp_parity.py repeats in Python. Rank 0 saves for it: the weights before and after,
// the batches of all ranks, and the mean of their losses in each step.
//
// usage: fsdp_steps FILE STEPS TYPE RECOMPUTE TIED PIECES ALGORITHM
//   TYPE: float64, float32, or bfloat16 (parameters in float32, which are computed with in bfloat16); RECOMPUTE: 0 or
//   1; TIED: 1: the last layer has the embedding's weight; PIECES: batches whose gradients add up to those of a step;
//   ALGORITHM: adamw or muon
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "dtrain/dtrain.h"

namespace {

constexpr std::int64_t kWords = 37, kWide = 24, kLength = 9, kSamples = 5;

struct LayerImpl : torch::nn::Module {
  LayerImpl() {
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWide})));
    up = register_module("up", torch::nn::Linear(kWide, 3 * kWide));
    down = register_module("down", torch::nn::Linear(torch::nn::LinearOptions(3 * kWide, kWide).bias(false)));
  }
  torch::Tensor forward(const torch::Tensor& x) { return x + down(torch::tanh(up(norm(x)))); }
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear up{nullptr}, down{nullptr};
};
DTRAIN_UNIT(Layer);

struct StackImpl : torch::nn::Module {
  StackImpl(bool repeats, bool ties) : again(repeats), tied(ties) {
    embed = register_module("embed", torch::nn::Embedding(kWords, kWide));
    for (int i = 0; i < 3; ++i) layers.push_back(register_module("layer" + std::to_string(i), Layer()));
    if (!tied) head = register_module("head", torch::nn::Linear(kWide, kWords));
  }
  torch::Tensor forward(const torch::Tensor& words) {
    torch::Tensor x = embed(words);
    for (Layer& layer : layers) x = again ? dtrain::recompute(layer, x) : layer(x);
    return tied ? torch::matmul(x, embed->weight.t()) : head(x);
  }
  bool again, tied;
  torch::nn::Embedding embed{nullptr};
  std::vector<Layer> layers;
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Stack);

using Saved = c10::Dict<std::string, torch::Tensor>;

void keep_parameters(Saved& saved, const std::string& when, dtrain::Parallel<StackImpl>& model) {
  const auto full = model.full_parameters();
  for (const auto& item : model->named_parameters()) saved.insert(when + item.key(), item.value().detach().clone());
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 8) {
    std::cerr << "usage: fsdp_steps FILE STEPS TYPE RECOMPUTE TIED PIECES ALGORITHM\n";
    return 2;
  }
  torch::set_num_threads(1);
  const int steps = std::atoi(arguments[2]), pieces = std::atoi(arguments[6]);
  const std::string type = arguments[3];
  const bool again = std::atoi(arguments[4]) != 0, tied = std::atoi(arguments[5]) != 0;
  const bool is_muon = std::string(arguments[7]) == "muon";
  if (type == "float64") torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
  dtrain::Strategy strategy{.kind = dtrain::StrategyKind::fsdp};
  if (type == "bfloat16") {
    strategy.param = dtrain::Precision::bfloat16;
    strategy.reduce = dtrain::Precision::float32;
  }

  auto session = dtrain::init();
  torch::manual_seed(3);
  dtrain::ParallelOptions options{.strategy = strategy};
  if (is_muon) {
    options.placement = [](const std::string&, const torch::Tensor& parameter) {
      return parameter.dim() == 2 ? dtrain::Placement::owned() : dtrain::Placement{};
    };
  }
  dtrain::Parallel model(
      session, [&] { return Stack(again, tied); }, options);
  const dtrain::AdamW adamw{.lr = 0.01, .weight_decay = 0.1};
  auto optimizer = is_muon ? model.optimizer(dtrain::Muon{.lr = 0.02, .adamw = adamw, .adamw_names = {"embed", "head"}})
                           : model.optimizer(adamw);
  torch::manual_seed(4);
  const torch::Tensor words = torch::randint(kWords, {steps, pieces, session.world_size(), kSamples, kLength + 1});
  const torch::Tensor losses = torch::zeros(steps, torch::kDouble);
  Saved saved;
  saved.insert("words", words);
  keep_parameters(saved, "before ", model);
  for (int step = 0; step < steps; ++step) {
    model.zero_grad();
    for (int piece = 0; piece < pieces; ++piece) {
      const auto learn = [&] {
        const torch::Tensor mine = words[step][piece][session.rank()];
        const torch::Tensor scores = model(mine.narrow(1, 0, kLength)).flatten(0, 1);
        const auto loss = torch::nn::functional::cross_entropy(scores.to(torch::get_default_dtype()),
                                                               mine.narrow(1, 1, kLength).flatten());
        (loss / pieces).backward();
        losses[step] += loss.detach() / pieces;
      };
      if (piece + 1 < pieces) {
        const auto quiet = model.no_sync();
        learn();
      } else {
        learn();
      }
    }
    model.clip_grad_norm(1.0);
    model.step(optimizer);
  }
  session.all_reduce(losses, c10d::ReduceOp::AVG);
  saved.insert("losses", losses);
  keep_parameters(saved, "after ", model);
  if (session.is_first()) {
    const std::vector<char> bytes = torch::pickle_save(saved);
    std::ofstream(arguments[1], std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  session.shutdown();
  return 0;
}
