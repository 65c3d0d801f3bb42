// How late will a flight land, given how late it started? The same binary runs alone, under `dtrain run` on any engine,
// and with any strategy. What it reads is what `dtrain preprocess` has made: see README.md and job.yaml.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "dtrain/dtrain.h"
#include "dtrain/parquet_loader.h"
#include "examples/flights/net.h"

namespace {

constexpr std::int64_t kGlobalBatch = 1024;
constexpr int kEpochs = 4;

// A part of the data set. The launcher says where it is, and how large the window is.
dtrain::ParquetLoader open_part(const dtrain::Session& session, const char* variable, bool shuffle) {
  const char* folder = std::getenv(variable);
  if (folder == nullptr) throw std::runtime_error(std::string(variable) + " is not set; see README.md");
  if (kGlobalBatch % session.world_size() != 0) throw std::runtime_error("the number of ranks must divide 1024");
  auto options = dtrain::ParquetLoaderOptions::from_environment();
  options.paths = {folder};
  options.columns = {"arr_delay"};
  options.matrices = flights::matrices();
  options.batch_size = kGlobalBatch / session.world_size();
  options.rank = session.rank();
  options.world_size = session.world_size();
  options.shuffle = shuffle;
  return dtrain::ParquetLoader(std::move(options));
}

class Trainer {
 public:
  explicit Trainer(dtrain::Session& session) : session_(session), model_(session, [] { return flights::Net(); }) {}

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
  dtrain::Parallel<flights::NetImpl> model_;
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
