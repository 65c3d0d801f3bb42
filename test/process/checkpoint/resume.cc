// Trains to step END, from the folder's newest checkpoint or from the beginning, with all that a run has to remember:
// dropout, a loss scale that grows and overflows, a rate that follows the loss, and its place in the data. Rank 0 says
// what each step did, and all bits of the parameters at the end.
//
// usage: ckpt_resume FOLDER END FORGOTTEN
//   FORGOTTEN: what is not restored: sampler, grad_scaler, plateau or random; none
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <limits>

#include "dtrain/dtrain.h"

namespace {

constexpr std::int64_t kWide = 12, kSamples = 29, kBatch = 5;  // six batches in an epoch, of which the last is smaller
constexpr double kRate = 0.01;

struct LayerImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return x + dropout(torch::tanh(linear(x))); }
  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(kWide, kWide));
  torch::nn::Dropout dropout = register_module("dropout", torch::nn::Dropout(0.3));
};
DTRAIN_UNIT(Layer);

struct NetImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return head(norm(second(first(x)))); }
  Layer first = register_module("first", Layer());
  Layer second = register_module("second", Layer());
  torch::nn::LayerNorm norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWide})));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(kWide, 1));
};
TORCH_MODULE(Net);

std::uint64_t bits_of_parameters(dtrain::Parallel<NetImpl>& model) {
  const auto full = model.full_parameters();
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const torch::Tensor& each : model->parameters()) {
    const torch::Tensor plain = each.detach().contiguous();
    const auto* bytes = static_cast<const unsigned char*>(plain.data_ptr());
    for (std::size_t i = 0; i < plain.nbytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001B3U;
  }
  return hash;
}

class Training {
 public:
  Training(dtrain::Session& session, const std::string& folder, const std::string& forgotten)
      : session_(session),
        forgotten_(forgotten),
        model_(session, [] { return Net(); }),
        optimizer_(model_.optimizer(dtrain::AdamW{.lr = kRate})),
        // No power of two: with another scale the bits are others.
        scaler_({.init_scale = 600, .growth_factor = 3, .growth_interval = 3, .hysteresis = 2}, model_.sum()),
        sampler_({.dataset_size = kSamples,
                  .global_batch_size = kBatch,
                  .rank = session.rank(),
                  .world_size = session.world_size(),
                  .seed = 5}),
        checkpoints_(session.world(), folder, {.sync = false}) {}

  void run(std::int64_t end) {
    std::int64_t step = restored();
    while (step < end) take(step++);
    model_.save(checkpoints_, end, optimizer_, plateau_.save_into(scaler_.save_into(sampler_.save_into())));
    const std::uint64_t bits = bits_of_parameters(model_);
    if (session_.is_first()) fmt::print("parameters {:016x}\n", bits);
  }

 private:
  std::int64_t restored() {
    const auto loaded = model_.load(checkpoints_, optimizer_);
    if (!loaded) return 0;
    if (forgotten_ != "sampler") sampler_.restore(loaded->extra);
    if (forgotten_ != "grad_scaler") scaler_.restore(loaded->extra);
    if (forgotten_ != "plateau") plateau_.restore(loaded->extra);
    optimizer_.set_lr(kRate * plateau_.factor());
    return loaded->step;
  }

  dtrain::SampledBatch next_batch() {
    auto batch = sampler_.next();
    if (!batch) {
      sampler_.set_epoch(sampler_.epoch() + 1);
      batch = sampler_.next();
    }
    return *batch;
  }

  void take(std::int64_t step) {
    if (forgotten_ != "random") dtrain::seed_step(session_, 7, step);
    const dtrain::SampledBatch batch = next_batch();
    const torch::Tensor rows = data_.index_select(0, torch::tensor(batch.indices, torch::kLong));
    model_.zero_grad();
    torch::Tensor output;
    {
      const dtrain::Autocast half(torch::kCPU, torch::kHalf);
      output = model_(rows);
    }
    const torch::Tensor apart = output.to(torch::kFloat) - torch::sin(rows.sum(1, /*keepdim=*/true));
    torch::Tensor loss = apart.square().sum() * session_.world_size() / batch.global_size;
    const bool overflows = step == 4 || step == 7;  // the scale waits for the second one (hysteresis)
    scaler_.scale(overflows ? loss * std::numeric_limits<float>::infinity() : loss).backward();
    scaler_.unscale(model_.gradients());
    model_.clip_grad_norm(1.0);
    bool stepped = false;
    model_.step([&] { stepped = scaler_.step(optimizer_, model_.gradients()); });
    scaler_.update();
    loss = loss.detach();
    session_.all_reduce(loss, c10d::ReduceOp::AVG);
    optimizer_.set_lr(kRate * plateau_.step(loss.item<double>()));
    if (session_.is_first())
      fmt::print("step {} stepped {} loss {:a} scale {} rate {:a} epoch {} position {}\n", step, stepped,
                 loss.item<double>(), scaler_.scale(), optimizer_.lr(), sampler_.epoch(), sampler_.position());
  }

  dtrain::Session& session_;
  std::string forgotten_;
  torch::Tensor data_ = torch::sin(torch::arange(kSamples * kWide, torch::kFloat) * 0.7).view({kSamples, kWide});
  dtrain::Parallel<NetImpl> model_;
  dtrain::ShardedOptimizer optimizer_;
  dtrain::GradScaler scaler_;
  dtrain::Plateau plateau_{{.factor = 0.7, .patience = 0, .threshold = 0.4, .cooldown = 1}};
  dtrain::BatchSampler sampler_;
  dtrain::Checkpoints checkpoints_;
};

}  // namespace

int main(int count, char** words) {
  if (count != 4) {
    std::cerr << "usage: ckpt_resume FOLDER END FORGOTTEN\n";
    return 2;
  }
  torch::set_num_threads(1);
  auto session = dtrain::init();
  torch::manual_seed(1);
  Training(session, words[1], words[3]).run(std::atoll(words[2]));
  session.shutdown();
  return 0;
}
