// Saves in the background of a training of examples/gpt's model: `async_bench FOLDER WIDTH DEPTH ROWS SAVES`. Rank 0
// prints a line for each save: how long save_async() took, how long the step after it waited for the copy, the two
// together, how long the write took, all of the slowest rank and in milliseconds, and the medians of the steps before
// the save and during it.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>

#include "dtrain/dtrain.h"
#include "examples/gpt/model.h"
#include "test/bench/timing.h"

namespace {

using dtrain::bench::Clock, dtrain::bench::median, dtrain::bench::ms_since;

constexpr std::int64_t kContext = 64, kCharacters = 109;
constexpr int kPlainSteps = 8;

class Training {
 public:
  Training(dtrain::Session& session, std::int64_t width, std::int64_t depth, std::int64_t rows)
      : session_(session),
        rows_(rows),
        model_(session,
               [&] {
                 return gpt::Gpt(gpt::ModelOptions{
                     .characters = kCharacters, .context = kContext, .width = width, .depth = depth, .heads = 8});
               }),
        optimizer_(model_.optimizer(dtrain::AdamW{.lr = 1e-4})) {}

  // Milliseconds of the step, and of its waiting for a copy. The save in flight may become complete in it.
  std::pair<double, double> step(dtrain::Checkpoints& checkpoints, dtrain::PendingCopy copy) {
    session_.barrier();
    const auto began = Clock::now();
    const torch::Tensor text = torch::randint(kCharacters, {rows_, kContext + 1}, torch::kLong);
    model_.zero_grad();
    const torch::Tensor scores = model_(text.narrow(1, 0, kContext));
    torch::nn::functional::cross_entropy(scores.flatten(0, 1), text.narrow(1, 1, kContext).flatten()).backward();
    model_.clip_grad_norm(1.0);
    const auto waits = Clock::now();
    copy.wait();  // step() would do the same
    const double waited = ms_since(waits);
    model_.step(optimizer_);
    saved_ = checkpoints.poll();
    return {ms_since(began), waited};
  }

  void save(dtrain::Checkpoints& checkpoints, int number) {
    std::vector<double> plain, during;
    for (int i = 0; i < kPlainSteps; ++i) plain.push_back(step(checkpoints, {}).first);
    session_.barrier();
    const auto began = Clock::now();
    dtrain::PendingCopy copy = model_.save_async(checkpoints, number, optimizer_);
    const double call = ms_since(began);
    double waited = 0;
    do {
      const auto [took, waits] = step(checkpoints, copy);
      during.push_back(took);
      waited += waits;
      copy = {};
    } while (!saved_);
    const torch::Tensor all =
        torch::tensor({call, waited, call + waited, ms_since(began), median(plain), median(during)}, torch::kDouble);
    session_.all_reduce(all, c10d::ReduceOp::MAX);
    const auto value = [&](int i) { return all[i].item<double>(); };
    if (session_.is_first())
      std::printf("save call %.3f waited %.3f stall %.3f written %.1f plain %.2f during %.2f steps %zu\n", value(0),
                  value(1), value(2), value(3), value(4), value(5), during.size());
    std::fflush(stdout);
  }

  // What all ranks save.
  double mib() {
    double parameters = 0;
    for (const auto& each : model_.module().parameters()) parameters += double(each.numel());
    return parameters * 12 / (1 << 20);
  }

 private:
  dtrain::Session& session_;
  std::int64_t rows_;
  dtrain::Parallel<gpt::GptImpl> model_;
  dtrain::ShardedOptimizer optimizer_;
  bool saved_ = true;
};

void measure(const std::string& folder, char** argv) {
  auto session = dtrain::init();
  torch::set_num_threads(1);
  torch::manual_seed(session.rank());
  Training training(session, std::atoi(argv[0]), std::atoi(argv[1]), std::atoi(argv[2]));
  if (session.is_first()) std::printf("state %.0f\n", training.mib());
  dtrain::Checkpoints checkpoints(session.world(), folder, {.keep_last = 1});
  for (int number = 0; number < std::atoi(argv[3]); ++number) training.save(checkpoints, number);
  session.shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  try {
    measure(argv[1], argv + 2);
  } catch (const std::exception& error) {
    std::cerr << "async_bench: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
