// The configs of DeepSpeed, Accelerate and Ludwig.
#include "dtrain/training_config.h"
#include "test/support/catch.h"

using namespace dtrain;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

constexpr JobSize kFour{.ranks = 4, .ranks_of_host = 2};

std::string refusal(const std::string& text, const JobSize& job = kFour) {
  try {
    parse_config(text, job);
  } catch (const ConfigError& error) {
    const std::string what = error.what();
    REQUIRE_THAT(what, StartsWith("dtrain: strategy"));
    return what;
  }
  return "accepted";
}

Strategy strategy_in(const std::string& text, const JobSize& job = kFour) { return parse_config(text, job).strategy; }
TrainingConfig training_in(const std::string& text, const JobSize& job = kFour) {
  return parse_config(text, job).training;
}

struct Case {
  const char* text;
  Strategy wanted;
};
struct Wrong {
  const char* text;
  const char* why;
};

}  // namespace

TEST_CASE("config: a stage of DeepSpeed is a strategy") {
  const Case cases[] = {
      {R"({"zero_optimization": {"stage": 0}})", {}},
      {R"({"zero_optimization": {"stage": 1}})", {.kind = StrategyKind::zero1}},
      {R"({"zero_optimization": {"stage": 2, "reduce_bucket_size": 5e6, "contiguous_gradients": true}})",
       {.kind = StrategyKind::zero2, .bucket_bytes = 20'000'000}},
      {R"({"zero_optimization": {"stage": 3, "overlap_comm": true, "reduce_bucket_size": "auto",
           "stage3_prefetch_bucket_size": 0, "mics_shard_size": 2, "offload_param": {"device": "none"}}})",
       {.kind = StrategyKind::fsdp, .prefetch = 0, .shard_size = 2}},
      // Elements: of four bytes, or of two. As many units as fit.
      {R"({"zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 5e7}})",
       {.kind = StrategyKind::fsdp, .prefetch = 64, .prefetch_bytes = 200'000'000}},
      {R"({"zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 5e7}, "bf16": {"enabled": true}})",
       {.kind = StrategyKind::fsdp, .param = Precision::bfloat16, .prefetch = 64, .prefetch_bytes = 100'000'000}},
      {R"({"zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 10}, "fp16": {"enabled": true}})",
       {.kind = StrategyKind::fsdp, .param = Precision::float16, .prefetch = 64, .prefetch_bytes = 20}},
      {R"({"zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": "auto",
           "stage3_param_persistence_threshold": "auto", "stage3_model_persistence_threshold": "auto"}})",
       {.kind = StrategyKind::fsdp}},
      {R"({"zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 1e5,
           "stage3_model_persistence_threshold": 9223372036854775807}})",
       {.kind = StrategyKind::fsdp, .whole_elements = 100'000}},
      {R"({"zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0,
           "stage3_model_persistence_threshold": 5}})",
       {.kind = StrategyKind::fsdp}},
      {R"({"zero_optimization": {"stage": 2, "stage3_prefetch_bucket_size": 10,
           "stage3_param_persistence_threshold": 10, "stage3_model_persistence_threshold": 5}})",
       {.kind = StrategyKind::zero2}},
      {R"({"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 2, "mics_shard_size": -1}})",
       {.kind = StrategyKind::fsdp, .reshard_size = 2}},
      {R"({"zero_optimization": {"stage": 3}, "bf16": {"enabled": true}, "communication_data_type": "fp32"})",
       {.kind = StrategyKind::fsdp, .param = Precision::bfloat16, .reduce = Precision::float32}},
      {R"({"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"}})",
       {.kind = StrategyKind::zero2, .param = Precision::bfloat16, .reduce = Precision::float32}},
      {R"({"zero_optimization": {"stage": 2}, "data_types": {"grad_accum_dtype": "fp32"}})",
       {.kind = StrategyKind::zero2}},
      {R"({"zero_optimization": {"stage": "auto"}, "bf16": {"enabled": "auto"}})", {.kind = StrategyKind::zero2}},
      {R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/local_nvme",
           "pin_memory": true, "buffer_count": 4, "pipeline_read": true, "ratio": 1}}})",
       {.kind = StrategyKind::fsdp, .state_folder = "/local_nvme"}},
      {R"({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": true}}})",
       {.kind = StrategyKind::zero2, .cpu_offload = true}},
      {R"({"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "none", "nvme_path": "/x"}}})",
       {.kind = StrategyKind::zero1}},
      {R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu",
           "pin_memory": true, "buffer_count": 5}}})",
       {.kind = StrategyKind::fsdp, .cpu_offload = true}},
      {R"({"zero_optimization": {"stage": 2, "cpu_offload": true}})",
       {.kind = StrategyKind::zero2, .cpu_offload = true}},
      {R"({"type": "deepspeed", "zero_optimization": {"stage": 1}, "steps_per_print": 10})",
       {.kind = StrategyKind::zero1}},
      {R"({"train_batch_size": 8})", {}},
  };
  for (const Case& each : cases) {
    INFO(each.text);
    CHECK(strategy_in(each.text) == each.wanted);
  }
}

TEST_CASE("config: what DeepSpeed has and dtrain has not is named") {
  const Wrong cases[] = {
      {R"({"zero_optimization": {"stage": 4}})",
       "zero_optimization.stage is 4, and must be a whole number from 0 to 3"},
      {R"({"zero_optimization": {"stage": 2.5}})", "a whole number from 0 to 3"},
      {R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu", "pin_memory": true}}})",
       "zero_optimization.offload_param.device is cpu, and dtrain has parameters on the CPU with their optimizer "
       "alone; "
       "set zero_optimization.offload_optimizer.device to cpu too"},
      {R"({"zero_optimization": {"stage": 2, "cpu_offload_param": true}})", "with their optimizer alone"},
      {R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}}})",
       "zero_optimization.offload_param.device 'nvme' is not known; one of none, cpu"},
      {R"({"zero_optimization": {"stage": 0, "offload_optimizer": {"device": "cpu"}}})",
       "zero_optimization.offload_optimizer.device is cpu and needs zero_optimization.stage 1, 2 or 3"},
      {R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme"}}})",
       "zero_optimization.offload_optimizer.device is nvme, and zero_optimization.offload_optimizer.nvme_path is not "
       "the "
       "path of a folder"},
      {R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "scratch"}}})",
       "nvme_path is not the path of a folder, from / on"},
      {R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "disk"}}})",
       "device 'disk' is not known; one of none, cpu, nvme"},
      {R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 0.3}}})",
       "ratio is 0.3; dtrain moves all of the state"},
      {R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"devise": "cpu"}}})",
       "unknown key zero_optimization.offload_optimizer.devise"},
      {R"({"zero_optimization": {"stage": 3, "zero_quantized_weights": true}})", "zero_quantized_weights is true"},
      {R"({"zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 10,
           "stage3_model_persistence_threshold": 1000000}})",
       "stage3_model_persistence_threshold is 1000000, and dtrain has no limit for all small parameters together"},
      {R"({"zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": -1}})",
       "stage3_param_persistence_threshold is -1, and must be a whole number from 0"},
      {R"({"zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": "many"}})",
       "stage3_prefetch_bucket_size is \"many\", and must be a whole number"},
      {R"({"zero_optimization": {"stage": 2, "zero_hpz_partition_size": 8}})", "zero_hpz_partition_size belongs to"},
      {R"({"zero_optimization": {"stage": 2}, "data_types": {"grad_accum_dtype": "fp32"},
           "communication_data_type": "bf16"})",
       "data_types.grad_accum_dtype is fp32, and communication_data_type is another type"},
      {R"({"zero_optimization": {"stage": 2}, "data_types": {"grad_accum_dtype": "bf16"}})", "set it to fp32"},
      {R"({"zero_optimization": {"stage": 2, "mics_shard_size": 2}})", "mics_shard_size belongs to stage 3"},
      {R"({"zero_optimization": {"stag": 3}})", "unknown key zero_optimization.stag; remove it, or correct it"},
      {R"({"zero_optimization": 3})", "zero_optimization is 3, and must be an object"},
      {R"({"zero_optimization": {"stage": 1}, "activation_checkpointing": {"number_checkpoints": 2}})",
       "activation_checkpointing is"},
      {R"({"train_batch_size": 8, "flops_profiler": {"enabled": true}})",
       "flops_profiler is {\"enabled\":true}; dtrain"},
      {R"({"train_batch_size": 8, "prescale_gradients": true})", "prescale_gradients is true"},
      {R"({"train_batch_size": 8, "elasticity": {"enabled": true}})", "--nnodes MIN:MAX"},
      {R"({"train_batch_size": 8, "bf16": {"enabled": true}})", "bf16.enabled asks for mixed precision, which ddp"},
      {R"({"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}, "fp16": {"enabled": true}})", "choose one"},
      {R"({"zero_optimization": {"stage": 2}, "bf16": {"enabled": "yes"}})",
       "bf16.enabled is \"yes\", and must be true"},
      {R"({"train_batch_size": 8, "train_batch_size": 16})", "has a name twice"},
      {R"({"train_batch_size": 8, "learning_rate": 1})", "unknown key learning_rate"},
      {"ds_config.json", "names a file"},
  };
  for (const Wrong& each : cases) {
    INFO(each.text);
    CHECK_THAT(refusal(each.text), Contains(each.why));
  }
  CHECK(refusal(R"({"train_batch_size": 8, "flops_profiler": {"enabled": false}})") == "accepted");
}

TEST_CASE("config: nesting without end is refused") {
  const std::string deep = R"({"optimizer": )" + std::string(100'000, '[');
  CHECK_THAT(refusal(deep), Contains("nested too deep"));
}

TEST_CASE("config: float16 brings the scale of the loss") {
  const TrainingConfig training = training_in(
      R"({"zero_optimization": {"stage": 2}, "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 12,
          "loss_scale_window": 500, "hysteresis": 3, "min_loss_scale": 2}})");
  REQUIRE(training.loss_scale);
  CHECK(training.loss_scale->init_scale == 4096);
  CHECK(training.loss_scale->growth_interval == 500);
  CHECK(training.loss_scale->hysteresis == 3);
  CHECK(training.loss_scale->min_scale == 2);
  CHECK(training.loss_scale->dynamic);
  CHECK(training.keys == std::vector<std::string>{"fp16.enabled"});
  const auto fixed =
      training_in(R"({"zero_optimization": {"stage": 2}, "fp16": {"enabled": true, "loss_scale": 128}})");
  CHECK(fixed.loss_scale->init_scale == 128);
  CHECK_FALSE(fixed.loss_scale->dynamic);
  CHECK_FALSE(training_in(R"({"zero_optimization": {"stage": 2}, "fp16": {"enabled": false}})").loss_scale);
  CHECK_THAT(refusal(R"({"zero_optimization": {"stage": 2}, "fp16": {"enabled": true, "auto_cast": true}})"),
             Contains("fp16.auto_cast is true"));
}

TEST_CASE("config: steps in bfloat16 that overflow are left out if the config asks for it") {
  const std::string zero = R"({"zero_optimization": {"stage": 2}, "bf16": )";
  const TrainingConfig training = training_in(zero + R"({"enabled": true, "check_grad_overflow": true}})");
  REQUIRE(training.loss_scale);
  CHECK(training.loss_scale->init_scale == 1);
  CHECK_FALSE(training.loss_scale->dynamic);
  CHECK(training.keys == std::vector<std::string>{"bf16.check_grad_overflow"});
  CHECK_FALSE(training_in(zero + R"({"enabled": true, "check_grad_overflow": false}})").loss_scale);
  CHECK_FALSE(training_in(zero + R"({"enabled": false, "check_grad_overflow": true}})").loss_scale);
}

TEST_CASE("config: two sizes of a batch give the third") {
  struct Batch {
    const char* text;
    std::int64_t all, micro, steps;
  };
  const Batch cases[] = {
      {R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2})", 32, 4, 2},
      {R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4})", 32, 4, 2},
      {R"({"train_batch_size": 32, "gradient_accumulation_steps": 4})", 32, 2, 4},
      {R"({"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2})", 32, 4, 2},
      {R"({"train_batch_size": 32})", 32, 8, 1},
      {R"({"train_micro_batch_size_per_gpu": 3})", 12, 3, 1},
      {R"({"zero_optimization": {}, "gradient_accumulation_steps": 5})", 0, 0, 5},
      {R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto"})", 0, 0, 0},
  };
  for (const Batch& each : cases) {
    INFO(each.text);
    const TrainingConfig training = training_in(each.text);
    CHECK(training.global_batch == each.all);
    CHECK(training.micro_batch == each.micro);
    CHECK(training.accumulation == each.steps);
  }
  CHECK_THAT(
      refusal(R"({"train_batch_size": 30, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2})"),
      Contains("train_batch_size is 30, but train_micro_batch_size_per_gpu 4 x gradient_accumulation_steps 2 x 4 ranks "
               "are 32; remove one of the three"));
  CHECK_THAT(refusal(R"({"train_batch_size": 30})"),
             Contains("train_batch_size is 30, which gradient_accumulation_steps 1 x 4 ranks = 4 does not divide"));
  CHECK_THAT(refusal(R"({"train_batch_size": 30, "train_micro_batch_size_per_gpu": 4})"), Contains("does not divide"));
  CHECK_THAT(refusal(R"({"train_batch_size": 0})"), Contains("train_batch_size is 0, and must be a whole number"));
  CHECK_THAT(refusal(R"({"train_micro_batch_size_per_gpu": 1e12, "gradient_accumulation_steps": 1e12})"),
             Contains("too large together"));
  // While the number of ranks is not known, the three are not compared.
  CHECK(refusal(R"({"train_batch_size": 30})", {}) == "accepted");
}

TEST_CASE("config: what the program must carry out is listed") {
  const TrainingConfig training = training_in(
      R"({"train_batch_size": 8, "gradient_accumulation_steps": 1, "gradient_clipping": 0.5,
          "optimizer": {"type": "SGD"}, "scheduler": {"type": "WarmupLR"}})");
  CHECK(training.keys == std::vector<std::string>{"optimizer", "scheduler", "gradient_clipping", "train_batch_size"});
  CHECK(training.max_norm == 0.5);
  CHECK(training_in(R"({"zero_optimization": {"stage": 1}, "gradient_clipping": 0, "gradient_accumulation_steps": 1})")
            .keys.empty());
}

TEST_CASE("config: the names of Accelerate are a strategy") {
  const Case cases[] = {
      {R"({"fsdp_config": {"fsdp_version": 2, "fsdp_reshard_after_forward": false,
           "fsdp_state_dict_type": "SHARDED_STATE_DICT",
           "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "fsdp_transformer_layer_cls_to_wrap": "GPT2Block"},
           "distributed_type": "FSDP", "mixed_precision": "bf16", "num_processes": 4, "machine_rank": 0})",
       {.kind = StrategyKind::fsdp,
        .param = Precision::bfloat16,
        .reshard_after_forward = false,
        .units = {"GPT2Block"}}},
      {R"({"fsdp_config": {"reshard_after_forward": 2, "transformer_cls_names_to_wrap": ["Block", "Head"]}})",
       {.kind = StrategyKind::fsdp, .reshard_size = 2, .units = {"Block", "Head"}}},
      {R"({"fsdp_config": {"fsdp_auto_wrap_policy": "SIZE_BASED_WRAP", "fsdp_transformer_layer_cls_to_wrap": "A, B",
           "fsdp_min_num_params": 7}})",
       {.kind = StrategyKind::fsdp, .unit_elements = 7}},
      {R"({"fsdp_transformer_layer_cls_to_wrap": "A, B"})", {.kind = StrategyKind::fsdp, .units = {"A", "B"}}},
      {R"({"fsdp_sharding_strategy": "FULL_SHARD", "fsdp_backward_prefetch": "NO_PREFETCH"})",
       {.kind = StrategyKind::fsdp, .prefetch = 0}},
      {R"({"fsdp_config": {"sharding_strategy": 2, "auto_wrap_policy": "SIZE_BASED_WRAP", "min_num_params": 5000}})",
       {.kind = StrategyKind::fsdp, .reshard_after_forward = false, .unit_elements = 5000}},
      {R"({"fsdp_config": {"fsdp_sharding_strategy": "HYBRID_SHARD"}})", {.kind = StrategyKind::fsdp, .shard_size = 2}},
      {R"({"fsdp_config": {"fsdp_sharding_strategy": "NO_SHARD", "fsdp_backward_prefetch": "BACKWARD_PRE"}})", {}},
      {R"({"distributed_type": "MULTI_GPU", "num_processes": 4, "dynamo_config": {}, "downcast_bf16": "no"})", {}},
      {R"({"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3, "offload_param_device": "none"}})",
       {.kind = StrategyKind::fsdp}},
      {R"({"distributed_type": "FSDP", "fsdp_config": {}})", {.kind = StrategyKind::fsdp}},
      {R"({"fsdp_config": {"fsdp_offload_params": true}})", {.kind = StrategyKind::fsdp, .cpu_offload = true}},
      {R"({"distributed_type": "DEEPSPEED"})", {.kind = StrategyKind::zero2}},
      {R"({"distributed_type": "NO", "fsdp_config": {}, "deepspeed_config": {}})", {}},
      {R"({"fsdp_sharding_strategy": "HYBRID_SHARD", "fsdp_reshard_after_forward": true})",
       {.kind = StrategyKind::fsdp, .shard_size = 2}},
      {R"({"fsdp_sharding_strategy": "FULL_SHARD", "fsdp_reshard_after_forward": 2})",
       {.kind = StrategyKind::fsdp, .reshard_size = 2}},
      {R"({"deepspeed_config": {"zero_stage": 1, "offload_optimizer_device": "nvme",
           "offload_optimizer_nvme_path": "/nvme"}})",
       {.kind = StrategyKind::zero1, .state_folder = "/nvme"}},
      {R"({"fsdp_config": {"mixed_precision_policy": {"param_dtype": "bfloat16", "reduce_dtype": "float32",
           "output_dtype": "float32"}}})",
       {.kind = StrategyKind::fsdp,
        .param = Precision::bfloat16,
        .reduce = Precision::float32,
        .output = Precision::float32}},
  };
  for (const Case& each : cases) {
    INFO(each.text);
    CHECK(strategy_in(each.text) == each.wanted);
  }
  const Wrong wrong[] = {
      {R"({"fsdp_config": {"fsdp_activation_checkpointing": true}})", "it is the program that checkpoints"},
      {R"({"fsdp_config": {"fsdp_backward_prefetch": "BACKWARD_POST"}})", "one of BACKWARD_PRE, NO_PREFETCH"},
      {R"({"fsdp_config": {"fsdp_sharding_strategy": "HALF"}})", "is not known; one of FULL_SHARD"},
      {R"({"fsdp_config": {"fsdp_transformer_layer_cls_to_wrap": ["Block", 3]}})", "must be names of unit classes"},
      {R"({"fsdp_config": {"fsdp_shard": 1}})", "unknown key fsdp_config.fsdp_shard"},
      {R"({"fsdp_shard": 1})", "unknown key fsdp_shard"},
      {R"({"distributed_type": "FSDP", "num_processes": 8})", "num_processes is 8, and the job has 4 ranks"},
      {R"({"distributed_type": "TPU"})", "distributed_type 'TPU'"},
      {R"({"distributed_type": "MULTI_GPU", "fsdp_config": {"fsdp_version": 2}})",
       "distributed_type is MULTI_GPU, and fsdp_config is there; correct one of them"},
      {R"({"distributed_type": "FSDP", "deepspeed_config": {"zero_stage": 2}})",
       "distributed_type is FSDP, and deepspeed_config is there"},
      {R"({"fsdp_config": {"fsdp_sharding_strategy": "SHARD_GRAD_OP", "fsdp_reshard_after_forward": true}})",
       "fsdp_config.fsdp_sharding_strategy and fsdp_config.fsdp_reshard_after_forward contradict each other"},
      {R"({"fsdp_sharding_strategy": "NO_SHARD", "fsdp_reshard_after_forward": true})", "contradict each other"},
      {R"({"fsdp_config": {"mixed_precision_policy": {"param_dtype": "bfloat16", "cast_forward_inputs": false}}})",
       "cast_forward_inputs is false; dtrain gives units inputs of param_dtype"},
      {R"({"distributed_type": "MULTI_GPU", "mixed_precision": "bf16"})", "mixed_precision asks for mixed precision"},
      {R"({"distributed_type": "MULTI_GPU", "mixed_precision": "fp8"})", "mixed_precision 'fp8'"},
      {R"({"deepspeed_config": {"deepspeed_config_file": "x.json"}})", "give that file to --strategy"},
      {R"({"deepspeed_config": {"offload_param_device": "cpu"}})", "set zero_optimization.offload_optimizer.device to"},
      {R"({"deepspeed_config": {"offload_optimizer_device": "nvme"}})", "nvme_path is not the path of a folder"},
  };
  for (const Wrong& each : wrong) {
    INFO(each.text);
    CHECK_THAT(refusal(each.text), Contains(each.why));
  }
  CHECK(training_in(R"({"fsdp_config": {"fsdp_version": 1}, "mixed_precision": "fp16"})").loss_scale);
  CHECK(training_in(R"({"deepspeed_config": {"zero_stage": 2, "gradient_clipping": 1.0}})").max_norm == 1);
}

TEST_CASE("config: a backend of Ludwig has a strategy") {
  const Case cases[] = {
      {R"({"backend": {"type": "ray", "trainer": {"strategy": "fsdp", "num_workers": 4}}})",
       {.kind = StrategyKind::fsdp}},
      {R"({"type": "local", "trainer": {"strategy": {"type": "deepspeed", "zero_optimization": {"stage": 3}}}})",
       {.kind = StrategyKind::fsdp}},
      {R"({"trainer": {"strategy": "deepspeed"}})", {.kind = StrategyKind::zero2}},
      {R"({"trainer": {"strategy": {"type": "accelerate", "fsdp_config": {"fsdp_version": 2}}}})",
       {.kind = StrategyKind::fsdp}},
      {R"({"trainer": {"strategy": {"type": "fsdp", "prefetch": 2}}})", {.kind = StrategyKind::fsdp, .prefetch = 2}},
      {R"({"backend": {"type": "local", "loader": {}}})", {}},
      {R"({"backend": {"type": "deepspeed"}})", {.kind = StrategyKind::zero2}},
      {R"({"backend": {"type": "deepspeed", "trainer": {"strategy": {"type": "deepspeed",
           "zero_optimization": {"stage": 3}}}}})",
       {.kind = StrategyKind::fsdp}},
      {R"({"backend": {"type": "deepspeed", "trainer": {"strategy": "fsdp"}}})", {.kind = StrategyKind::fsdp}},
      {R"({"backend": {"type": "ray", "trainer": {"strategy": "accelerate"}}})", {}},
      {R"({"backend": "ray"})", {}},
      {R"({"backend": "deepspeed", "ludwig_version": "0.17"})", {.kind = StrategyKind::zero2}},
  };
  for (const Case& each : cases) {
    INFO(each.text);
    CHECK(strategy_in(each.text) == each.wanted);
  }
  const Wrong wrong[] = {
      {R"({"trainer": {"strategy": "horovod"}})", "trainer.strategy is horovod; write the program with dtrain::hvd"},
      {R"({"trainer": {"strategy": "colossal"}})", "type 'colossal' is not known"},
      {R"({"trainer": {"strategy": "ddp", "num_workers": 2}})", "trainer.num_workers is 2, and the job has 4 ranks"},
      {R"({"trainer": {"strategy": "ddp", "max_retries": 3}})", "use --max-restarts"},
      {R"({"trainer": {"strategy": "ddp", "use_gpu": true}})", "CUDA_VISIBLE_DEVICES"},
      {R"({"backend": {"type": "ray", "cache_dir": "/tmp"}})", "backend.cache_dir is \"/tmp\"; data are the program's"},
      {R"({"trainer": {"strategy": {"type": "deepspeed", "zero_optimization": {"stage": 9}}}})",
       "trainer.strategy.zero_optimization.stage is 9"},
      {R"({"backend": {}, "input_features": []})", "input_features is there; the model and its data are the program's"},
      {R"({"backend": {"type": "horovod"}})", "backend.type is horovod; write the program with dtrain::hvd"},
      {R"({"backend": "horovod"})", "backend.type is horovod"},
      {R"({"backend": "spark"})", "backend.type 'spark' is not known; one of local, ray, deepspeed"},
  };
  for (const Wrong& each : wrong) {
    INFO(each.text);
    CHECK_THAT(refusal(each.text), Contains(each.why));
  }
}
