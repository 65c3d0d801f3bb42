// Ludwig's `backend` section, and where its `trainer` section is. See formats.h.
// Tested by test/unit/strategies/config/parse_config_test.cc.
#include <fmt/format.h>

#include "strategies/config/formats.h"

namespace dtrain::config {
namespace {

Config read_map(const Json& map, const std::string& path, const JobSize& job) {
  if (map.is_string()) return {read_own(map, map.get<std::string>()), {}};
  JsonReader reader(map, path);
  if (is_deepspeed(map)) return read_deepspeed(reader, job);
  if (is_accelerate(map)) return read_accelerate(reader, job);
  return {read_own(map, map.dump(-1, ' ', false, Json::error_handler_t::replace)), {}};
}

constexpr const char* kUseHvd = "write the program with dtrain::hvd, and remove the key";

// What the word means without a key.
Config deepspeed_alone(const std::string& path, const JobSize& job) {
  return read_map({{"type", "deepspeed"}}, path, job);
}

Config read_strategy(JsonReader& trainer, const JobSize& job) {
  const Json* strategy = trainer.value("strategy");
  if (strategy == nullptr) return {};
  if (*strategy == "horovod") refuse(fmt::format("{} is horovod; {}", trainer.path_of("strategy"), kUseHvd));
  if (*strategy == "deepspeed") return deepspeed_alone(trainer.path_of("strategy"), job);
  if (*strategy == "accelerate") return {};  // as Accelerate without a config: ddp
  return read_map(*strategy, trainer.path_of("strategy"), job);
}

// `backend.trainer`. Its reader's finish() is the caller's.
Config read_workers(JsonReader& trainer, const JobSize& job) {
  Config config = read_strategy(trainer, job);
  const auto workers = trainer.count("num_workers", 1, 1 << 20);
  if (workers && job.ranks > 0 && *workers != job.ranks) {
    refuse(fmt::format("{} is {}, and the job has {} ranks; correct one of them (--nproc, --nnodes)",
                       trainer.path_of("num_workers"), *workers, job.ranks));
  }
  trainer.forbid({"use_gpu", "resources_per_worker"},
                 "ranks take the GPUs that CUDA_VISIBLE_DEVICES shows; remove the key");
  trainer.forbid({"logdir"}, "use --log-dir, and remove the key");
  trainer.forbid({"max_retries"}, "use --max-restarts, and remove the key");
  return config;
}

// `is_alone`: there is nothing around it, so that `trainer` may be either of Ludwig's two sections of that name.
Config read_backend(JsonReader& backend, bool is_alone, const JobSize& job) {
  const Json* type = backend.value("type");
  if (type != nullptr && *type == "horovod") refuse(fmt::format("{} is horovod; {}", backend.path_of("type"), kUseHvd));
  const auto trains = backend.one_of<bool>("type", {{"local", false}, {"ray", false}, {"deepspeed", true}});
  backend.off({"cache_dir", "cache_credentials", "processor", "loader", "preprocessor_kwargs"},
              "data are the program's; remove the key");
  auto trainer = backend.section("trainer");
  const bool says = trainer && trainer->value("strategy") != nullptr;
  Config config = trainer ? read_workers(*trainer, job) : Config{};
  if (trains.value_or(false) && !says) config = deepspeed_alone(backend.path_of("type"), job);
  if (trainer && is_alone) read_ludwig_trainer(*trainer, job, config);
  if (trainer) trainer->finish();
  backend.finish();
  return config;
}

// A map, or its type alone.
Config read_backend_at(const Json& backend, const JobSize& job) {
  const Json map = backend.is_string() ? Json{{"type", backend}} : backend;
  JsonReader reader(map, "backend");
  return read_backend(reader, false, job);
}

}  // namespace

bool is_ludwig(const Json& json) { return json.is_object() && (json.contains("backend") || json.contains("trainer")); }

Config read_ludwig(JsonReader& json, const JobSize& job) {
  json.forbid({"model_type", "base_model", "input_features", "output_features", "combiner", "preprocessing", "defaults",
               "hyperopt", "prompt", "adapter", "quantization", "generation"},
              "the model and its data are the program's; remove the key");
  json.without_meaning({"ludwig_version"});
  if (!json.has("backend")) return read_backend(json, true, job);
  const Json* backend = json.value("backend");
  Config config = backend != nullptr ? read_backend_at(*backend, job) : Config{};
  if (auto trainer = json.section("trainer")) {
    read_ludwig_trainer(*trainer, job, config);
    trainer->finish();
  }
  json.finish();
  return config;
}

}  // namespace dtrain::config
