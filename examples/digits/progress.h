#pragma once
// What rank 0 tells the user while it trains: a bar that rewrites its line on a terminal, else a line an epoch.
#include <chrono>
#include <cstdint>

namespace digits {

class Progress {
 public:
  // quiet: print nothing (all ranks but the first).
  Progress(int epochs, std::int64_t steps_per_epoch, bool quiet);

  // After each update, with its loss.
  void step(int epoch, std::int64_t step, double loss);
  // After an epoch, with its mean loss.
  void epoch_done(int epoch, double mean_loss);
  // At the end.
  void finish(double train_loss, double test_accuracy);

  double seconds() const;

 private:
  const int epochs_;
  const std::int64_t steps_per_epoch_;
  const bool quiet_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point drawn_{};
};

}  // namespace digits
