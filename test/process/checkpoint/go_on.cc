// Trains steps BEGIN to END of what go_on.py trains in Python, under the strategy that the launcher says, and saves a
// checkpoint.
//
// usage: ckpt_go_on ALGORITHM BEGIN END FOLDER [MODEL MODEL_PREFIX STATE STATE_PREFIX]
//   ALGORITHM: adamw, sgd or adagrad; FOLDER: of the checkpoint; the others: what to begin with, and its names there
#include <cstdlib>
#include <iostream>

#include "dtrain/dtrain.h"

namespace {

constexpr std::int64_t kWide = 10, kHidden = 7, kRows = 12;  // uneven on any number of ranks but 2

struct PieceImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return x + down(torch::tanh(up(x))); }
  torch::nn::Linear up = register_module("up", torch::nn::Linear(kWide, kHidden));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(kHidden, kWide));
};
DTRAIN_UNIT(Piece);

struct RowImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return head(second(first(x))); }
  Piece first = register_module("first", Piece());
  Piece second = register_module("second", Piece());
  torch::nn::Linear head = register_module("head", torch::nn::Linear(kWide, 3));
};
TORCH_MODULE(Row);

dtrain::OptimizerOptions algorithm_of(const std::string& name) {
  if (name == "adamw") return dtrain::AdamW{.lr = 0.01, .weight_decay = 0.1};
  if (name == "sgd") return dtrain::Sgd{.lr = 0.1, .momentum = 0.9};
  return dtrain::Adagrad{.lr = 0.05, .lr_decay = 0.01};
}

torch::Tensor rows_of(const dtrain::Session& session, std::int64_t columns, double step) {
  const torch::Tensor all = torch::sin(torch::arange(kRows * columns, torch::kDouble) * 0.7 + step);
  return all.view({kRows, columns}).tensor_split(session.world_size())[session.rank()];
}

}  // namespace

int main(int count, char** words) {
  torch::set_num_threads(1);
  torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
  try {
    auto session = dtrain::init();
    torch::manual_seed(1);
    dtrain::Parallel model(session, [] { return Row(); });
    auto optimizer = model.optimizer(algorithm_of(words[1]));
    if (count == 9) {
      model.load_weights(words[5], {.prefix = words[6]});
      model.load_state(words[7], optimizer, {.prefix = words[8]});
    }
    for (int step = std::atoi(words[2]); step < std::atoi(words[3]); ++step) {
      model.zero_grad();
      const torch::Tensor apart = model(rows_of(session, kWide, step)) - rows_of(session, 3, -step);
      apart.pow(2).mean().backward();
      model.step(optimizer);
    }
    dtrain::Checkpoints checkpoints(session.world(), words[4]);
    model.save(checkpoints, std::atoi(words[3]), optimizer);
    session.shutdown();
  } catch (const dtrain::CheckpointError& error) {
    std::cerr << error.what() << '\n';
    return 3;
  }
}
