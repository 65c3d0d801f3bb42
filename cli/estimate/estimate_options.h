#pragma once
// What was typed after `dtrain estimate`. Pure.
#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/base/result.h"

namespace dtrain::cli {

struct EstimateOptions {
  std::string path;             // of files with parameters; empty: their number is given
  std::int64_t parameters = 0;  // if it is given
  int nnodes = 1;
  int nproc = 1;                   // ranks of a node
  bool knows_nodes = true;         // false: only the number of ranks was given
  std::vector<std::string> units;  // patterns of names, as "model.layers.N"
  std::int64_t unit_count = 0;     // units of one size, for a number of parameters; 0: not said
  std::string strategy{};          // as it was typed; empty: all
  int micro_batches = 0;           // 0: not said
  std::string optimizer{};         // empty: not said
  int state_numbers = 0;           // of the optimizer, for each parameter
  std::string state = "float32";
  int state_bytes = 4;
  bool state_on_disk = false;
  bool loss_scale = false;  // the strategy's text has one
  double memory = 0;        // bytes that a rank has; 0: not said
  bool json = false;

  int ranks() const { return nnodes * nproc; }
  // Of a node, if they may share memory.
  int host_ranks() const { return knows_nodes && nproc > 1 ? nproc : 0; }
};

// `name`: as --optimizer has it.
Result<void> take_optimizer(const std::string& name, EstimateOptions& options);

// Without --optimizer it is not known yet: estimate_strategy.h says it.
Result<EstimateOptions> parse_estimate(const std::vector<std::string>& words);

// "7e9", "7B", "350M": a number of parameters, 1 or more.
Result<std::int64_t> parse_parameters(const std::string& text);
// "80GB", "75GiB", "500MB": bytes.
Result<double> parse_memory(const std::string& text);

}  // namespace dtrain::cli
