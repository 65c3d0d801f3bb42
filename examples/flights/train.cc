// How late will a flight land, given how late it started? The same binary runs alone, under `dtrain run` on any engine,
// and with any strategy. What it reads is what `dtrain preprocess` has made: see README.md and job.yaml.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "dtrain/dtrain.h"
#include "dtrain/parquet_loader.h"

namespace {

constexpr std::int64_t kGlobalBatch = 1024;
constexpr int kEpochs = 4;
// The sizes of the vocabularies in job.yaml, and 1 for what is not in them.
constexpr std::int64_t kCarriers = 32, kOrigins = 8, kDestinations = 128;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    carrier = register_module("carrier", torch::nn::Embedding(kCarriers, 8));
    origin = register_module("origin", torch::nn::Embedding(kOrigins, 4));
    destination = register_module("destination", torch::nn::Embedding(kDestinations, 12));
    first = register_module("first", torch::nn::Linear(8 + 4 + 12 + 4, 64));
    second = register_module("second", torch::nn::Linear(64, 32));
    last = register_module("last", torch::nn::Linear(32, 1));
  }

  // numbers: [rows, 4] float32; names: [rows, 3] int64. Returns [rows].
  torch::Tensor forward(const torch::Tensor& numbers, const torch::Tensor& names) {
    torch::Tensor x = torch::cat(
        {numbers, carrier(names.select(1, 0)), origin(names.select(1, 1)), destination(names.select(1, 2))}, 1);
    x = torch::relu(first(x));
    return last(torch::relu(second(x))).squeeze(1);
  }

  torch::nn::Embedding carrier{nullptr}, origin{nullptr}, destination{nullptr};
  torch::nn::Linear first{nullptr}, second{nullptr}, last{nullptr};
};
TORCH_MODULE(Net);

// A part of the data set. The launcher says where it is, and how large the window is.
dtrain::ParquetLoader open_part(const dtrain::Session& session, const char* variable, bool shuffle) {
  const char* folder = std::getenv(variable);
  if (folder == nullptr) throw std::runtime_error(std::string(variable) + " is not set; see README.md");
  if (kGlobalBatch % session.world_size() != 0) throw std::runtime_error("the number of ranks must divide 1024");
  auto options = dtrain::ParquetLoaderOptions::from_environment();
  options.paths = {folder};
  options.columns = {"arr_delay"};
  options.matrices = {{"numbers", {"month", "hour", "distance", "dep_delay"}},
                      {"names", {"carrier", "origin", "dest"}}};
  options.batch_size = kGlobalBatch / session.world_size();
  options.rank = session.rank();
  options.world_size = session.world_size();
  options.shuffle = shuffle;
  return dtrain::ParquetLoader(std::move(options));
}

class Trainer {
 public:
  explicit Trainer(dtrain::Session& session) : session_(session), model_(session, [] { return Net(); }) {}

  void train(const std::string& folder) {
    auto rows = open_part(session_, "DTRAIN_DATASET", true);
    auto optimizer = model_.optimizer(dtrain::AdamW{.lr = 2e-3});
    dtrain::Checkpoints checkpoints(session_.world(), folder, {.keep_last = 2});
    std::int64_t step = 0;
    if (const auto loaded = model_.load(checkpoints, optimizer)) {
      step = loaded->step;
      rows.load_state(loaded->extra.substr(1, loaded->extra.size() - 2));  // without its quotes
    }
    while (rows.epoch() < kEpochs) {
      const auto epoch = rows.epoch();
      double sum = 0;
      std::int64_t seen = 0;
      while (const auto batch = rows.next()) {
        sum += update(*batch, optimizer);
        seen += batch->global_rows;
        ++step;
      }
      model_.save(checkpoints, step, optimizer, '"' + rows.state() + '"');  // JSON
      if (session_.is_first())
        std::printf("epoch %d: loss %.7f\n", static_cast<int>(epoch), sum / static_cast<double>(seen));
    }
  }

  // The mean squared error, in units of the variance: of a model that always says the mean it is 1.
  double validate() {
    const torch::NoGradGuard no_grad;
    auto rows = open_part(session_, "DTRAIN_DATASET_VALIDATION", false);
    torch::Tensor sums = torch::zeros({2}, torch::kDouble);
    while (const auto batch = rows.next()) {
      const auto own = batch->rows - batch->repeated;
      sums += torch::stack(
          {errors(*batch).slice(0, 0, own).to(torch::kDouble).sum(), torch::scalar_tensor(own, torch::kDouble)});
    }
    session_.all_reduce(sums);
    return (sums[0] / sums[1]).item<double>();
  }

 private:
  torch::Tensor errors(const dtrain::LoadedBatch& batch) {
    const auto here = [&](const char* name) { return batch.at(name).to(session_.device()); };
    return (model_(here("numbers"), here("names").to(torch::kLong)) - here("arr_delay")).pow(2);
  }

  // Returns the sum of the global batch's errors, the same on every rank.
  double update(const dtrain::LoadedBatch& batch, dtrain::ShardedOptimizer& optimizer) {
    model_.zero_grad();
    // A row that is repeated counts once. Gradients are averaged over the ranks: the factor makes that the mean.
    const torch::Tensor sum = errors(batch).slice(0, 0, batch.rows - batch.repeated).sum();
    (sum * (static_cast<double>(session_.world_size()) / static_cast<double>(batch.global_rows))).backward();
    model_.step(optimizer);
    torch::Tensor total = sum.detach().to(torch::kDouble);
    session_.all_reduce(total);
    return total.item<double>();
  }

  dtrain::Session& session_;
  dtrain::Parallel<NetImpl> model_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: train_flights CHECKPOINTS\n");
    return 2;
  }
  try {
    auto session = dtrain::init();
    if (std::getenv("OMP_NUM_THREADS") == nullptr) torch::set_num_threads(1);
    torch::manual_seed(1);
    Trainer trainer(session);
    trainer.train(argv[1]);
    const double loss = trainer.validate();
    if (session.is_first()) std::printf("validation loss %.7f\n", loss);
    session.shutdown();
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "train_flights: %s\n", error.what_without_backtrace());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_flights: %s\n", error.what());
    return 1;
  }
  return 0;
}
