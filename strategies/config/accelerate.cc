// What `accelerate config` writes. See formats.h.
// Tested by test/unit/strategies/config/parse_config_test.cc.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "strategies/config/formats.h"

namespace dtrain::config {
namespace {

constexpr std::int64_t kWholeModel = std::int64_t{1} << 40;  // no unit has so many elements
constexpr const char* kFsdpPrefix = "fsdp_";

enum class Sharding { full, grad_op, none, hybrid, hybrid_grad_op };

void set_sharding(Sharding sharding, const JobSize& job, Strategy& strategy) {
  if (sharding == Sharding::none) {
    strategy.kind = StrategyKind::ddp;
    return;
  }
  const bool hybrid = sharding == Sharding::hybrid || sharding == Sharding::hybrid_grad_op;
  strategy.reshard_after_forward = sharding == Sharding::full || sharding == Sharding::hybrid;
  if (hybrid) strategy.shard_size = job.ranks_of_host;
}

// fsdp_sharding_strategy by name or number, or fsdp_reshard_after_forward, which may have such a name too.
void read_sharding_key(JsonReader& fsdp, std::string_view key, const JobSize& job, Strategy& strategy) {
  const Json* given = fsdp.value(key);
  if (given == nullptr) return;
  if (given->is_boolean()) {
    if (!key.ends_with("reshard_after_forward")) fsdp.refuse_value(key, "a name such as FULL_SHARD");
    strategy.reshard_after_forward = given->get<bool>();
    return;
  }
  if (given->is_number() && key.ends_with("reshard_after_forward")) {
    strategy.reshard_size = static_cast<int>(*fsdp.count(key, 2, 1 << 20));
    return;
  }
  if (given->is_number()) {
    set_sharding(static_cast<Sharding>(*fsdp.count(key, 1, 5) - 1), job, strategy);
    return;
  }
  const auto sharding = fsdp.one_of<Sharding>(key, {{"FULL_SHARD", Sharding::full},
                                                    {"SHARD_GRAD_OP", Sharding::grad_op},
                                                    {"NO_SHARD", Sharding::none},
                                                    {"HYBRID_SHARD", Sharding::hybrid},
                                                    {"HYBRID_SHARD_ZERO2", Sharding::hybrid_grad_op}});
  set_sharding(*sharding, job, strategy);
}

// Both keys may be there, if they say the same.
void read_sharding(JsonReader& fsdp, const std::string& prefix, const JobSize& job, Strategy& strategy) {
  const std::string sharding = prefix + "sharding_strategy", reshard = prefix + "reshard_after_forward";
  Strategy alone = strategy;
  read_sharding_key(fsdp, sharding, job, strategy);
  read_sharding_key(fsdp, reshard, job, alone);
  if (fsdp.value(reshard) == nullptr) return;
  const bool same = strategy.kind == alone.kind && strategy.reshard_after_forward == alone.reshard_after_forward;
  if (fsdp.value(sharding) != nullptr && !same)
    refuse(fmt::format("{} and {} contradict each other; remove one", fsdp.path_of(sharding), fsdp.path_of(reshard)));
  read_sharding_key(fsdp, reshard, job, strategy);
}

enum class Wrap { by_class, by_size, whole };

// A list, or words with commas between them.
std::vector<std::string> names_at(JsonReader& json, const std::string& key) {
  const Json* given = json.value(key);
  if (given == nullptr) return {};
  std::vector<std::string> names;
  if (given->is_array()) {
    for (const Json& each : *given) names.push_back(each.is_string() ? each.get<std::string>() : "");
  } else {
    std::istringstream words(json.word(key).value_or(""));
    for (std::string word; std::getline(words, word, ',');) names.push_back(word);
  }
  for (std::string& name : names) {
    name.erase(0, name.find_first_not_of(' '));
    if (name.empty()) json.refuse_value(key, "names of unit classes");
  }
  return names;
}

// Which modules are units is the program's to say (DTRAIN_UNIT); the config can leave out some.
void read_wrapping(JsonReader& fsdp, const std::string& prefix, Strategy& strategy) {
  const auto wrap = fsdp.one_of<Wrap>(
      prefix + "auto_wrap_policy",
      {{"TRANSFORMER_BASED_WRAP", Wrap::by_class}, {"SIZE_BASED_WRAP", Wrap::by_size}, {"NO_WRAP", Wrap::whole}});
  const auto least = fsdp.count(prefix + "min_num_params", 0, kWholeModel);
  std::vector<std::string> classes = names_at(fsdp, prefix + "transformer_layer_cls_to_wrap");
  const std::vector<std::string> others = names_at(fsdp, prefix + "transformer_cls_names_to_wrap");
  classes.insert(classes.end(), others.begin(), others.end());
  if (wrap.value_or(Wrap::by_class) == Wrap::by_class) strategy.units = classes;
  if (wrap == Wrap::by_size) strategy.unit_elements = least.value_or(100'000'000);
  if (wrap == Wrap::whole) strategy.unit_elements = kWholeModel;
}

std::optional<Precision> precision_of(JsonReader& json, std::string_view key) {
  return json.one_of<Precision>(key, {{"float32", Precision::float32},
                                      {"torch.float32", Precision::float32},
                                      {"bfloat16", Precision::bfloat16},
                                      {"torch.bfloat16", Precision::bfloat16},
                                      {"float16", Precision::float16},
                                      {"torch.float16", Precision::float16},
                                      {"fp32", Precision::float32},
                                      {"bf16", Precision::bfloat16},
                                      {"fp16", Precision::float16}});
}

void read_policy(JsonReader& policy, Config& config) {
  config.strategy.param = precision_of(policy, "param_dtype").value_or(config.strategy.param);
  config.strategy.reduce = precision_of(policy, "reduce_dtype").value_or(config.strategy.reduce);
  config.strategy.output = precision_of(policy, "output_dtype").value_or(config.strategy.output);
  policy.off("buffer_dtype", "dtrain leaves buffers as they are; remove the key");
  policy.only("cast_forward_inputs", true, "dtrain gives units inputs of param_dtype; set it to true");
  policy.finish();
}

void read_fsdp(JsonReader& fsdp, const std::string& prefix, const JobSize& job, Config& config) {
  Strategy& strategy = config.strategy;
  strategy.kind = StrategyKind::fsdp;
  const auto key = [&](const char* name) { return prefix + name; };
  fsdp.count(key("version"), 1, 2);
  read_sharding(fsdp, prefix, job, strategy);
  if (auto policy = fsdp.section(key("mixed_precision_policy"))) read_policy(*policy, config);
  const auto prefetch = fsdp.one_of<int>(key("backward_prefetch"), {{"BACKWARD_PRE", 1}, {"NO_PREFETCH", 0}});
  strategy.prefetch = prefetch.value_or(strategy.prefetch);
  read_wrapping(fsdp, prefix, strategy);
  for (const char* name : {"offload_params", "cpu_offload"})
    strategy.cpu_offload |= fsdp.flag(key(name)).value_or(false);
  fsdp.off({key("activation_checkpointing")}, "it is the program that checkpoints activations; set it to false");
  fsdp.off({key("ignored_modules"), key("ignored_params")}, "dtrain shards all parameters; remove the key");
  fsdp.without_meaning({key("forward_prefetch"), key("state_dict_type"), key("use_orig_params"),
                        key("sync_module_states"), key("cpu_ram_efficient_loading"), key("limit_all_gathers")});
  fsdp.finish();
  if (strategy.kind == StrategyKind::fsdp) return;
  // NO_SHARD: what was read has no meaning, but for the precision.
  if (strategy.param != Precision::same || strategy.reduce != Precision::same || strategy.output != Precision::same)
    require_sharded(fsdp.path_of(key("mixed_precision_policy")), strategy);
  strategy = {};
}

// mixed_precision of Accelerate: "no", "fp16", "bf16".
void read_mixed_precision(JsonReader& json, Config& config) {
  const auto precision = json.one_of<Precision>(
      "mixed_precision", {{"no", Precision::same}, {"bf16", Precision::bfloat16}, {"fp16", Precision::float16}});
  if (!precision || *precision == Precision::same) return;
  require_sharded(json.path_of("mixed_precision"), config.strategy);
  if (config.strategy.param == Precision::same) config.strategy.param = *precision;
  if (*precision == Precision::float16) scale_loss(json.path_of("mixed_precision"), {}, config);
}

// Accelerate's short form of a DeepSpeed config.
Config read_plugin(JsonReader& plugin, const JobSize& job) {
  if (plugin.value("deepspeed_config_file") != nullptr) {
    refuse(fmt::format("{} names a file; give that file to --strategy in place of this one",
                       plugin.path_of("deepspeed_config_file")));
  }
  Json deepspeed = Json::object();
  Json& zero = deepspeed["zero_optimization"];
  zero["stage"] = plugin.count("zero_stage", 0, 3).value_or(2);
  if (const Json* value = plugin.value("offload_param_device")) zero["offload_param"]["device"] = *value;
  for (const char* key : {"device", "nvme_path"})
    if (const Json* value = plugin.value(fmt::format("offload_optimizer_{}", key)))
      zero["offload_optimizer"][key] = *value;
  for (const char* key : {"gradient_accumulation_steps", "gradient_clipping"})
    if (const Json* value = plugin.value(key)) deepspeed[key] = *value;
  plugin.without_meaning({"zero3_init_flag", "zero3_save_16bit_model", "deepspeed_multinode_launcher",
                          "offload_param_nvme_path", "zero_stage"});
  plugin.off({"deepspeed_hostfile", "deepspeed_inclusion_filter", "deepspeed_exclusion_filter"},
             "the hosts are those where dtrain run is started; remove the key");
  plugin.off("deepspeed_moe_layer_cls_names", "dtrain does not have it; remove the key");
  plugin.finish();
  JsonReader reader(deepspeed, "");
  return read_deepspeed(reader, job);
}

void read_launch(JsonReader& json, const JobSize& job) {
  const auto processes = json.count("num_processes", 1, 1 << 20);
  if (processes && job.ranks > 0 && *processes != job.ranks) {
    refuse(fmt::format("num_processes is {}, and the job has {} ranks; correct one of them (--nproc, --nnodes)",
                       *processes, job.ranks));
  }
  json.only("compute_environment", "LOCAL_MACHINE", "dtrain does not have it; set it to LOCAL_MACHINE");
  json.without_meaning({"num_machines", "machine_rank", "main_process_ip", "main_process_port",
                        "main_training_function", "rdzv_backend", "same_network", "commands", "command_file"});
  json.off({"use_cpu", "gpu_ids"}, "set CUDA_VISIBLE_DEVICES, and remove the key");
  json.off("enable_cpu_affinity", "use --numa-binding node, and set it to false");
  json.off("debug", "set DTRAIN_CHECK_CALLS=1, and the key to false");
  json.off(
      {"downcast_bf16", "tpu_env", "tpu_name", "tpu_zone", "tpu_use_cluster", "tpu_use_sudo", "tpu_vm", "dynamo_config",
       "tp_config", "parallelism_config", "megatron_lm_config", "fp8_config", "ipex_config", "mpirun_config"},
      "dtrain does not have it; remove the key");
}

enum class Section { none, fsdp, deepspeed };

// Which section says how the model is sharded. An empty one says nothing, but distributed_type asks for its defaults.
Section section_of(JsonReader& json) {
  const auto has = [&](const char* key) { return json.has(key) && !json.is_empty(key); };
  const bool fsdp = has("fsdp_config"), deepspeed = has("deepspeed_config");
  if (fsdp && deepspeed) refuse("fsdp_config and deepspeed_config are both there; remove one");
  const Section there = fsdp ? Section::fsdp : deepspeed ? Section::deepspeed : Section::none;
  const auto asked = json.one_of<Section>("distributed_type", {{"FSDP", Section::fsdp},
                                                               {"DEEPSPEED", Section::deepspeed},
                                                               {"MULTI_GPU", Section::none},
                                                               {"MULTI_CPU", Section::none},
                                                               {"NO", Section::none}});
  if (!asked) return there;
  if (there != Section::none && there != *asked)
    refuse(fmt::format("distributed_type is {}, and {} is there; correct one of them",
                       json.word("distributed_type").value_or(""), fsdp ? "fsdp_config" : "deepspeed_config"));
  return *asked;
}

bool is_fsdp_alone(const Json& json) {
  const auto items = json.items();
  return !json.empty() &&
         std::all_of(items.begin(), items.end(), [](const auto& item) { return item.key().starts_with(kFsdpPrefix); });
}

}  // namespace

bool is_accelerate(const Json& json) {
  if (!json.is_object()) return false;
  if (const auto type = json.find("type"); type != json.end()) return *type == "accelerate";
  const auto has = [&](const char* key) { return json.contains(key); };
  return has("fsdp_config") || has("deepspeed_config") || has("distributed_type") || has("compute_environment") ||
         is_fsdp_alone(json);
}

Config read_accelerate(JsonReader& json, const JobSize& job) {
  Config config;
  if (!json.has("fsdp_config") && json.keys_begin_with(kFsdpPrefix)) {
    read_fsdp(json, kFsdpPrefix, job, config);
    return config;
  }
  json.only("type", "accelerate", "a config of Accelerate has no type, or accelerate");
  static const Json nothing = Json::object();
  const auto section_at = [&](const char* key) {
    const Json* given = json.value(key);
    return JsonReader(given != nullptr ? *given : nothing, json.path_of(key));
  };
  const Section section = section_of(json);
  if (section == Section::fsdp) {
    JsonReader fsdp = section_at("fsdp_config");
    read_fsdp(fsdp, fsdp.keys_begin_with(kFsdpPrefix) ? kFsdpPrefix : "", job, config);
  } else if (section == Section::deepspeed) {
    JsonReader plugin = section_at("deepspeed_config");
    config = read_plugin(plugin, job);
  }
  json.without_meaning({"fsdp_config", "deepspeed_config"});
  read_mixed_precision(json, config);
  if (config.training.accumulation == 0) read_batch(json, job, config.training);
  read_launch(json, job);
  json.finish();
  return config;
}

}  // namespace dtrain::config
