// DeepSpeed's JSON: stages, precision, clipping. See formats.h.
// Tested by test/unit/strategies/config/parse_config_test.cc.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "strategies/config/formats.h"

namespace dtrain::config {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::int64_t kMany = std::int64_t{1} << 40;
// Units that are gathered ahead at most, whatever their size: the largest value of our own key.
constexpr int kMostAhead = 64;
constexpr const char* kNotQuantized = "dtrain sends numbers as they are; set it to false";

// Any of these makes a JSON object one of DeepSpeed.
constexpr std::string_view kMarks[] = {
    "zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu", "fp16", "bf16", "optimizer",
    "scheduler",         "gradient_clipping"};

// Ranks that share one copy of the model, and those that share a unit between forward and backward.
void read_partitions(JsonReader& zero, Strategy& strategy) {
  const auto read = [&](const char* key, std::int64_t least) {
    const auto size = zero.count(key, -1, 1 << 20).value_or(0);
    if (size < least) return 0;
    if (strategy.kind != StrategyKind::fsdp)
      refuse(fmt::format("{} belongs to stage 3, and the stage is another", zero.path_of(key)));
    return static_cast<int>(size);
  };
  strategy.shard_size = read("mics_shard_size", 1);
  strategy.reshard_size = read("zero_hpz_partition_size", 2);
}

void read_buckets(JsonReader& zero, Strategy& strategy) {
  const auto elements = zero.count("reduce_bucket_size", 1, kMany / 4);
  // The parameters that are optimized are float32. In stage 3 a unit is reduced as one.
  if (elements && strategy.kind != StrategyKind::fsdp) strategy.bucket_bytes = *elements * 4;
}

// Elements that are gathered before they are needed, at most. The precision must be known: it says what they take.
void read_prefetch(JsonReader& zero, Strategy& strategy) {
  const auto elements = zero.count("stage3_prefetch_bucket_size", 0, kMany);
  if (!elements || strategy.kind != StrategyKind::fsdp) return;
  strategy.prefetch = *elements == 0 ? 0 : kMostAhead;
  if (*elements == 0) return;
  const bool narrow = strategy.param == Precision::bfloat16 || strategy.param == Precision::float16;
  strategy.prefetch_bytes = *elements * (narrow ? 2 : 4);
}

// Small parameters that stay whole.
void read_persistence(JsonReader& zero, Strategy& strategy) {
  const auto each = zero.count("stage3_param_persistence_threshold", 0, kMany);
  const auto together = zero.number("stage3_model_persistence_threshold", 0, kInfinite);
  if (strategy.kind != StrategyKind::fsdp) return;
  strategy.whole_elements = each.value_or(0);
  if (strategy.whole_elements > 0 && together && *together < static_cast<double>(kMany)) {
    refuse(
        fmt::format("{} is {}, and dtrain has no limit for all small parameters together; remove the key, and lower "
                    "{} if they are too many",
                    zero.path_of("stage3_model_persistence_threshold"), *together,
                    zero.path_of("stage3_param_persistence_threshold")));
  }
}

enum class OffloadTo { none, cpu, disk };

// The optimizer's state, in the memory of the CPU or on a disk.
void read_offload(JsonReader& offload, Strategy& strategy) {
  const auto to = offload.one_of<OffloadTo>(
      "device", {{"none", OffloadTo::none}, {"cpu", OffloadTo::cpu}, {"nvme", OffloadTo::disk}});
  const auto folder = offload.word("nvme_path");
  offload.only("ratio", 1.0, "dtrain moves all of the state; set it to 1.0");
  offload.off("super_offload", "dtrain does not have it; remove the key");
  offload.without_meaning({"pin_memory", "buffer_count", "buffer_size", "pipeline", "pipeline_read", "pipeline_write",
                           "fast_init", "cpuadam_cores_perc"});
  offload.finish();
  if (to == OffloadTo::cpu) strategy.cpu_offload = true;
  if (to != OffloadTo::disk) return;
  if (!folder || !folder->starts_with('/'))
    refuse(fmt::format("{} is nvme, and {} is not the path of a folder, from / on; name one that is on each host",
                       offload.path_of("device"), offload.path_of("nvme_path")));
  strategy.state_folder = *folder;
}

// dtrain has the parts of parameters beside their gradients and their state.
void read_parameter_offload(JsonReader& zero, const Strategy& strategy) {
  bool asked = zero.flag("cpu_offload_param").value_or(false);  // its name in old versions
  if (auto offload = zero.section("offload_param")) {
    asked |= offload->one_of<bool>("device", {{"none", false}, {"cpu", true}}).value_or(false);
    offload->without_meaning({"nvme_path", "pin_memory", "buffer_count", "buffer_size", "max_in_cpu"});
    offload->finish();
  }
  if (asked && !strategy.cpu_offload)
    refuse(fmt::format("{} is cpu, and dtrain has parameters on the CPU with their optimizer alone; set {} to cpu too",
                       zero.path_of("offload_param.device"), zero.path_of("offload_optimizer.device")));
  if (strategy.cpu_offload && strategy.kind == StrategyKind::ddp)
    refuse(fmt::format("{} is cpu and needs {} 1, 2 or 3", zero.path_of("offload_optimizer.device"),
                       zero.path_of("stage")));
}

void read_zero(JsonReader& zero, Strategy& strategy) {
  // Accelerate, which fills in what is "auto", takes stage 2.
  const bool is_auto = zero.has("stage") && zero.value("stage") == nullptr;
  constexpr StrategyKind kStages[] = {StrategyKind::ddp, StrategyKind::zero1, StrategyKind::zero2, StrategyKind::fsdp};
  strategy.kind = kStages[zero.count("stage", 0, 3).value_or(is_auto ? 2 : 0)];
  read_buckets(zero, strategy);
  read_persistence(zero, strategy);
  zero.without_meaning({"cpu_offload_use_pin_memory"});
  strategy.cpu_offload = zero.flag("cpu_offload").value_or(false);  // its name in old versions
  if (auto offload = zero.section("offload_optimizer")) read_offload(*offload, strategy);
  read_parameter_offload(zero, strategy);
  zero.off({"zero_quantized_weights", "zero_quantized_nontrainable_weights", "zero_quantized_gradients",
            "zeropp_loco_param"},
           kNotQuantized);
  read_partitions(zero, strategy);
  zero.only("ignore_unused_parameters", true, "a parameter without a gradient has a gradient of zero; set it to true");
  zero.off({"mics_hierarchical_params_gather", "zenflow", "leaf_module", "elastic_checkpoint", "legacy_stage1"},
           "dtrain does not have it; remove the key");
  zero.without_meaning({"contiguous_gradients",
                        "overlap_comm",
                        "reduce_scatter",
                        "allgather_partitions",
                        "allgather_bucket_size",
                        "use_multi_rank_bucket_allreduce",
                        "round_robin_gradients",
                        "sub_group_size",
                        "load_from_fp32_weights",
                        "stage3_max_live_parameters",
                        "stage3_max_reuse_distance",
                        "stage3_gather_16bit_weights_on_model_save",
                        "stage3_gather_fp16_weights_on_model_save",
                        "stage3_module_granularity_threshold",
                        "stage3_use_all_reduce_for_fetch_params",
                        "stage3_allgather_sequential",
                        "stage3_partition_stream_chunk_size",
                        "memory_efficient_linear",
                        "override_module_apply",
                        "pipeline_loading_checkpoint",
                        "log_trace_cache_warnings",
                        "enable_sanity_checks",
                        "save_muon_momentum_buffer_in_memory"});
}

bool read_bfloat16(JsonReader& bf16, Config& config) {
  const bool on = bf16.flag("enabled").value_or(false);
  bf16.off({"bf16_master_weights_and_grads", "bf16_optimizer_states"},
           "the config leaves parameters and state in float32; set it to false, and state_dtype in the program "
           "(optimizer.h)");
  bf16.without_meaning({"immediate_grad_update"});
  const bool checks = bf16.flag("check_grad_overflow").value_or(false);
  bf16.finish();
  if (!on) return false;
  config.strategy.param = Precision::bfloat16;
  // A scale of 1 that never changes: steps whose gradients are not finite are left out.
  if (checks) scale_loss(bf16.path_of("check_grad_overflow"), {.init_scale = 1, .dynamic = false}, config);
  return true;
}

bool read_float16(JsonReader& fp16, Config& config) {
  const bool on = fp16.flag("enabled").value_or(false);
  GradScalerOptions scale;
  const double fixed = fp16.number("loss_scale", 0, kInfinite).value_or(0);
  scale.dynamic = fixed == 0;
  // DeepSpeed has no use for the power if the scale is fixed.
  const std::int64_t power = fp16.count("initial_scale_power", 0, 100).value_or(16);
  scale.init_scale = scale.dynamic ? 1 : fixed;
  for (std::int64_t i = 0; scale.dynamic && i < power; ++i) scale.init_scale *= 2;
  scale.growth_interval = static_cast<int>(fp16.count("loss_scale_window", 1, 1 << 30).value_or(1000));
  scale.hysteresis = static_cast<int>(fp16.count("hysteresis", 1, 1 << 30).value_or(2));
  scale.min_scale = std::min(fp16.number("min_loss_scale", 0, kInfinite).value_or(1), scale.init_scale);
  fp16.off("consecutive_hysteresis",
           "dtrain counts overflows from one growth of the scale to the next; set it to false");
  fp16.off("auto_cast", "inputs are the program's; cast them there, and set it to false");
  fp16.off("fp16_master_weights_and_grads", "dtrain optimizes in float32; set it to false");
  fp16.finish();
  if (!on) return false;
  config.strategy.param = Precision::float16;
  scale_loss(fp16.path_of("enabled"), scale, config);
  return true;
}

void read_precision(JsonReader& json, Config& config) {
  auto bf16 = json.section("bf16");
  auto fp16 = json.section("fp16");
  const bool wide = bf16 && read_bfloat16(*bf16, config);
  const bool narrow = fp16 && read_float16(*fp16, config);
  if (wide && narrow) refuse("bf16.enabled and fp16.enabled are both true; choose one");
  const auto reduce = json.one_of<Precision>("communication_data_type", {{"fp32", Precision::float32},
                                                                         {"fp16", Precision::float16},
                                                                         {"bfp16", Precision::bfloat16},
                                                                         {"bf16", Precision::bfloat16}});
  if (wide || narrow) require_sharded(json.path_of(wide ? "bf16.enabled" : "fp16.enabled"), config.strategy);
  if (!reduce) return;
  require_sharded(json.path_of("communication_data_type"), config.strategy);
  config.strategy.reduce = *reduce;
}

// The gradients of a rank's micro-batches are added up in the type in which they are reduced.
void read_accumulation(JsonReader& json, Strategy& strategy) {
  auto types = json.section("data_types");
  if (!types) return;
  types->only("grad_accum_dtype", "fp32", "dtrain keeps the sum of gradients in float32; set it to fp32");
  const bool asked = types->value("grad_accum_dtype") != nullptr;
  types->finish();
  const Precision reduced = strategy.reduce == Precision::same ? strategy.param : strategy.reduce;
  if (!asked || reduced == Precision::same || reduced == Precision::float32) return;
  if (strategy.reduce != Precision::same)
    refuse(
        fmt::format("{} is fp32, and communication_data_type is another type; dtrain adds gradients up in the type "
                    "in which it sends them: set communication_data_type to fp32, or remove one of the keys",
                    types->path_of("grad_accum_dtype")));
  strategy.reduce = Precision::float32;
}

// Of no use for training itself, or of DeepSpeed's own parts.
void read_rest(JsonReader& json) {
  json.without_meaning({"steps_per_print", "wall_clock_breakdown", "memory_breakdown", "dump_state",
                        "dataloader_drop_last", "zero_allow_untested_optimizer", "zero_force_ds_cpu_optimizer",
                        "disable_allgather", "seq_parallel_communication_data_type", "$schema"});
  json.off("prescale_gradients", "dtrain averages gradients while it reduces them; set it to false");
  json.only("gradient_predivide_factor", 1.0, "dtrain averages gradients while it reduces them; set it to 1.0");
  json.off("sparse_gradients", "gradients that are sharded are dense; set it to false");
  json.off("activation_checkpointing", "it is the program that checkpoints activations; remove the key");
  json.off("elasticity", "the number of nodes is dtrain run's --nnodes MIN:MAX; remove the key");
  json.off("amp", "use bf16, or fp16, in its place");
  json.off({"flops_profiler",
            "tensorboard",
            "wandb",
            "csv_monitor",
            "comet",
            "comms_logger",
            "monitor_config",
            "autotuning",
            "compression_training",
            "curriculum_learning",
            "data_efficiency",
            "sparse_attention",
            "aio",
            "checkpoint",
            "hybrid_engine",
            "nebula",
            "eigenvalue",
            "progressive_layer_drop",
            "compile",
            "tensor_parallel",
            "weight_quantization",
            "quantize_training"},
           "dtrain does not have it; remove the key");
}

}  // namespace

bool is_deepspeed(const Json& json) {
  if (!json.is_object()) return false;
  if (const auto type = json.find("type"); type != json.end()) return *type == "deepspeed";
  return std::any_of(std::begin(kMarks), std::end(kMarks), [&](std::string_view mark) { return json.contains(mark); });
}

void scale_loss(const std::string& key, const GradScalerOptions& options, Config& config) {
  config.training.loss_scale = options;
  config.training.keys.push_back(key);
}

void require_sharded(const std::string& key, const Strategy& strategy) {
  if (strategy.kind != StrategyKind::ddp) return;
  refuse(
      fmt::format("{} asks for mixed precision, which ddp (stage 0, NO_SHARD) does not have; choose another "
                  "stage, or remove the key and use dtrain::Autocast in the program",
                  key));
}

Config read_deepspeed(JsonReader& json, const JobSize& job) {
  Config config;
  json.only("type", "deepspeed", "a config of DeepSpeed has no type, or deepspeed");
  auto zero = json.section("zero_optimization");
  // Ludwig's word for DeepSpeed alone: as `"stage": "auto"`.
  if (!zero && json.has("type")) config.strategy.kind = StrategyKind::zero2;
  if (zero) read_zero(*zero, config.strategy);
  read_precision(json, config);
  read_accumulation(json, config.strategy);
  if (zero) {
    read_prefetch(*zero, config.strategy);
    zero->finish();
  }
  if (auto optimizer = json.section("optimizer")) {
    config.training.optimizer = read_optimizer(*optimizer);
    config.training.keys.push_back(json.path_of("optimizer"));
  }
  if (auto scheduler = json.section("scheduler")) {
    config.training.rate = read_schedule(*scheduler, config.training.optimizer);
    config.training.keys.push_back(json.path_of("scheduler"));
  }
  const double norm = json.number("gradient_clipping", 0, kInfinite).value_or(0);
  if (norm > 0) {
    config.training.max_norm = norm;
    config.training.keys.push_back(json.path_of("gradient_clipping"));
  }
  read_batch(json, job, config.training);
  read_rest(json);
  json.finish();
  return config;
}

}  // namespace dtrain::config
