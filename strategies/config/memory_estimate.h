#pragma once
// How much memory a rank needs for a model's parameters, their gradients and the optimizer's state, by strategy: what
// Parallel keeps. Without activations, buffers, and what single operations need for a moment. Pure.
// test/parity/strategy_memory_test.cc compares it with what a training holds.
#include <cstdint>
#include <vector>

#include "dtrain/strategy.h"

namespace dtrain::config {

// In elements.
struct ModelSize {
  std::vector<std::int64_t> units{};  // what each unit has (unit.h)
  std::int64_t rest = 0;              // what belongs to no unit
  std::int64_t largest = 0;           // of one parameter

  std::int64_t elements() const;
};

struct TrainingSize {
  int ranks = 1;
  int host_ranks = 0;       // so many ranks of each host share memory, on CPUs: then fsdp may keep one copy. 0: none
  int parameter_bytes = 4;  // of an element that is optimized
  int state_numbers = 2;    // of the optimizer for an element: Adam 2, SGD 0, with momentum 1
  int state_bytes = 4;      // of such a number
  int micro_batches = 1;    // backwards of a rank in a step, which count with `deterministic`: a power of two
  bool loss_scale = false;  // a GradScaler reads the gradients; with float16 one always does
};

// Bytes of one rank. If ranks share memory, this rank's share of it. total(): of memory.
struct RankMemory {
  double parameters = 0;  // all the time; with mixed precision, those that compute and those that are optimized
  double gradients = 0;   // when backward has ended
  double optimizer = 0;   // the state
  double live = 0;        // in backward: units that are whole for a time, and gradients on their way
  double on_disk = 0;     // the state that is not in memory (state_folder)

  double total() const { return parameters + gradients + optimizer + live; }
};

RankMemory memory_of(const Strategy& strategy, const ModelSize& model, const TrainingSize& training);

}  // namespace dtrain::config
