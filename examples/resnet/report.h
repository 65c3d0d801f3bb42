#pragma once
// What rank 0 tells the user and writes into files; the other ranks tell nothing.
#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "examples/resnet/settings.h"

namespace resnet {

struct Epoch {
  double loss = 0;               // mean over the images
  double accuracy = 0;           // share of the images that were recognised while training
  double images_per_second = 0;  // of all processes together
};

struct Job {
  int ranks = 1;
  int threads = 1;
  std::string device;
  std::int64_t parameters = 0;
  std::int64_t global_batch = 0;
  std::int64_t train_images = 0;
  std::int64_t test_images = 0;
};

// The median epoch's, without the first one, which warms up, if there are others; 0 of none.
double steady_images_per_second(const std::vector<Epoch>& epochs);

class Report {
 public:
  // Throws std::runtime_error where a file of the settings cannot be written.
  Report(const Settings& settings, const Job& job, bool quiet);

  // After each update.
  void step(std::int64_t step, std::int64_t steps, double loss);
  void epoch(const Epoch& epoch);
  void finish(double test_loss, double test_accuracy);

 private:
  void write_json(double test_loss, double test_accuracy) const;

  const Settings& settings_;
  const Job job_;
  const bool quiet_;
  const bool terminal_;
  std::ofstream loss_csv_;
  std::int64_t steps_done_ = 0;
  std::vector<Epoch> epochs_;
};

}  // namespace resnet
