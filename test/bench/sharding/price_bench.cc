// The price of `deterministic`: steps of the model of examples/gpt, with and without it, under the strategy of
// DTRAIN_STRATEGY. The two take turns within one process, step by step, so that what else the machine does hits both.
// Rank 0 prints a line of JSON: the medians of both in milliseconds.
//
// usage: price_bench MICRO_BATCHES STEPS
#include <iostream>

#include "dtrain/dtrain.h"
#include "examples/gpt/model.h"
#include "test/bench/timing.h"

namespace {

constexpr gpt::ModelOptions kModel{.characters = 109, .context = 64, .width = 96, .depth = 4, .heads = 4};
constexpr std::int64_t kGlobalBatch = 16;
constexpr int kSkipped = 10;  // steps

class Training {
 public:
  Training(dtrain::Session& session, bool deterministic, std::int64_t micro_batches)
      : session_(session),
        micro_batches_(micro_batches),
        model_(
            session, [] { return gpt::Gpt(kModel); },
            dtrain::ParallelOptions{.strategy = strategy_of(session, deterministic)}),
        optimizer_(model_.optimizer(dtrain::AdamW{.lr = 1e-3})) {}

  void step(bool counts) {
    session_.barrier();
    const auto began = dtrain::bench::Clock::now();
    model_.zero_grad();
    for (std::int64_t each = 1; each < micro_batches_; ++each) {
      const auto quiet = model_.no_sync();
      learn();
    }
    learn();
    model_.clip_grad_norm(1.0);
    model_.step(optimizer_);
    session_.barrier();
    if (counts) taken_.push_back(dtrain::bench::ms_since(began));
  }

  double median() const { return dtrain::bench::median(taken_); }

 private:
  static dtrain::Strategy strategy_of(const dtrain::Session& session, bool deterministic) {
    dtrain::Strategy strategy = session.env().strategy;
    strategy.deterministic = deterministic;
    return strategy;
  }

  void learn() {
    const std::int64_t rows = kGlobalBatch / session_.world_size() / micro_batches_;
    const torch::Tensor text = torch::randint(kModel.characters, {rows, kModel.context + 1}, torch::kLong);
    const torch::Tensor scores = model_(text.narrow(1, 0, kModel.context));
    const torch::Tensor next = text.narrow(1, 1, kModel.context).reshape({-1});
    (torch::nn::functional::cross_entropy(scores.flatten(0, 1), next) / micro_batches_).backward();
  }

  dtrain::Session& session_;
  std::int64_t micro_batches_;  // of each rank
  dtrain::Parallel<gpt::GptImpl> model_;
  dtrain::ShardedOptimizer optimizer_;
  std::vector<double> taken_;
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::cerr << "usage: price_bench MICRO_BATCHES STEPS\n";
    return 2;
  }
  torch::set_num_threads(1);
  auto session = dtrain::init();
  {
    Training without(session, false, std::atoll(arguments[1])), with(session, true, std::atoll(arguments[1]));
    const int steps = std::atoi(arguments[2]);
    for (int step = 0; step < steps; ++step) {
      Training* order[] = {&without, &with};
      if (step % 2 == 1) std::swap(order[0], order[1]);
      for (Training* each : order) each->step(step >= kSkipped);
    }
    if (session.is_first())
      std::cout << "{\"without\": " << without.median() << ", \"with\": " << with.median() << "}\n";
  }
  session.shutdown();
}
