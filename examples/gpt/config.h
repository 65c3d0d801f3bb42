#pragma once
// What a config of DeepSpeed, Accelerate or Ludwig (`dtrain run --strategy ds_config.json ./gpt`) says of training.
#include "dtrain/training_config.h"
#include "examples/gpt/settings.h"

namespace gpt {

// The settings with what the config says in place of defaults. Flags that were typed win. Throws std::runtime_error for
// what contradicts another value, and for what gpt cannot carry out.
Settings with_config(Settings settings, const dtrain::TrainingConfig& config, int ranks);

}  // namespace gpt
