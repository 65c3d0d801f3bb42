#pragma once
// The flags of `gpt`.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/training_config.h"

namespace gpt {

struct Settings {
  std::string data;  // a text file
  std::int64_t steps = 300;
  std::int64_t global_batch = 16;  // stretches of text per update, over all ranks
  std::int64_t micro_batches = 1;  // of each rank in an update: so many forwards and backwards
  std::int64_t context = 64;       // characters of a stretch
  std::int64_t width = 96, depth = 4, heads = 4;
  std::string dtype = "float32";    // float32, float64 or bfloat16
  std::string optimizer = "adamw";  // or muon
  double lr = 3e-3;
  double max_norm = 1;  // of the gradient
  std::uint64_t seed = 1;
  bool recompute = false;
  std::string loss_file;          // empty: none
  std::string save;               // folder of checkpoints; empty: none
  std::int64_t save_every = 100;  // steps
  bool resume = false;
  std::int64_t generate = 200;  // characters

  std::vector<std::string> typed;  // of the flags that a config has too
  // Of a config (config.h): in place of `optimizer`, and of the program's schedule.
  std::optional<dtrain::OptimizerOptions> algorithm;
  dtrain::LearningRate rate;
};

// Read the command line. Ends the program for --help (0) and for usage errors (2).
Settings parse_settings(int argc, char** argv);

}  // namespace gpt
