#pragma once
// The configs of others. Each function reads one object, and throws ConfigError for a key that makes no sense or cannot
// be carried out. docs/training/config.md lists the keys. Pure.
#include "dtrain/training_config.h"
#include "strategies/config/json_reader.h"

namespace dtrain::config {

// DeepSpeed's JSON.
bool is_deepspeed(const Json& json);
Config read_deepspeed(JsonReader& json, const JobSize& job);
// Its parts: `optimizer`, `scheduler`, and the three sizes of a batch.
OptimizerOptions read_optimizer(JsonReader& json);
LearningRate read_schedule(JsonReader& json, const std::optional<OptimizerOptions>& optimizer);
void read_batch(JsonReader& json, const JobSize& job, TrainingConfig& training);

// What `accelerate config` writes, as JSON, or its fsdp_config alone.
bool is_accelerate(const Json& json);
Config read_accelerate(JsonReader& json, const JobSize& job);

// Ludwig's `backend` section: {"type": "ray", "trainer": {"strategy": ...}}, or what contains it, or its strategy.
bool is_ludwig(const Json& json);
Config read_ludwig(JsonReader& json, const JobSize& job);

// Our own keys (strategy.h). `json`: a string, or an object with "type".
Strategy read_own(const Json& json, const std::string& text);

// What mixed precision in float16 begins with, in DeepSpeed and in Accelerate.
void scale_loss(const std::string& key, const GradScalerOptions& options, Config& config);
// ddp computes in the parameters' type: Autocast is the program's.
void require_sharded(const std::string& key, const Strategy& strategy);

}  // namespace dtrain::config
