#pragma once
// The configs of others. Each function reads one object, and throws ConfigError for a key that makes no sense or cannot
// be carried out. docs/training/config.md lists the keys. Pure.
#include "dtrain/training_config.h"
#include "strategies/config/json_reader.h"

namespace dtrain::config {

// DeepSpeed's JSON.
bool is_deepspeed(const Json& json);
Config read_deepspeed(JsonReader& json, const JobSize& job);
// Its parts: `optimizer` and `scheduler`.
OptimizerOptions read_optimizer(JsonReader& json);
LearningRate read_schedule(JsonReader& json, const std::optional<OptimizerOptions>& optimizer);

// The keys of the three sizes of a batch: of all ranks in a step, of one forward, and forwards of a rank in a step.
struct BatchKeys {
  std::string_view all, micro, steps;
};
inline constexpr BatchKeys kDeepSpeedBatch{"train_batch_size", "train_micro_batch_size_per_gpu",
                                           "gradient_accumulation_steps"};
void read_batch(JsonReader& json, const JobSize& job, TrainingConfig& training,
                const BatchKeys& keys = kDeepSpeedBatch);

// Optimizers whose keys have torch.optim's names, in DeepSpeed and in Ludwig. Without weight_decay there is none.
enum class TorchOptimizer { adam, adamw, sgd, adagrad };
OptimizerOptions read_torch_optimizer(TorchOptimizer which, JsonReader& params);

// What `accelerate config` writes, as JSON, or its fsdp_config alone.
bool is_accelerate(const Json& json);
Config read_accelerate(JsonReader& json, const JobSize& job);

// Ludwig's config: its `backend` section, {"type": "ray", "trainer": {"strategy": ...}}, alone or as a part of it, and
// its `trainer` section, which says how is trained.
bool is_ludwig(const Json& json);
Config read_ludwig(JsonReader& json, const JobSize& job);
// Adds what the `trainer` section says. The reader's finish() is the caller's.
void read_ludwig_trainer(JsonReader& trainer, const JobSize& job, Config& config);

// Our own keys (strategy.h). `json`: a string, or an object with "type".
Strategy read_own(const Json& json, const std::string& text);

// What mixed precision in float16 begins with, in DeepSpeed and in Accelerate.
void scale_loss(const std::string& key, const GradScalerOptions& options, Config& config);
// ddp computes in the parameters' type: Autocast is the program's.
void require_sharded(const std::string& key, const Strategy& strategy);

}  // namespace dtrain::config
