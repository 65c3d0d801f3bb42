// Ludwig's `backend` section. See formats.h.
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

// What the word means without a key.
Config deepspeed_alone(const std::string& path, const JobSize& job) {
  return read_map({{"type", "deepspeed"}}, path, job);
}

Config read_strategy(JsonReader& trainer, const JobSize& job) {
  const Json* strategy = trainer.value("strategy");
  if (strategy == nullptr) return {};
  if (*strategy == "horovod")
    refuse(fmt::format("{} is horovod; write the program with dtrain::hvd, and remove the key",
                       trainer.path_of("strategy")));
  if (*strategy == "deepspeed") return deepspeed_alone(trainer.path_of("strategy"), job);
  if (*strategy == "accelerate") return {};
  return read_map(*strategy, trainer.path_of("strategy"), job);
}

Config read_trainer(JsonReader& trainer, const JobSize& job) {
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
  trainer.finish();
  return config;
}

Config read_backend(JsonReader& backend, const JobSize& job) {
  const auto trains = backend.one_of<bool>("type", {{"local", false}, {"ray", false}, {"deepspeed", true}});
  backend.off({"cache_dir", "cache_credentials", "processor", "loader", "preprocessor_kwargs"},
              "data are the program's; remove the key");
  auto trainer = backend.section("trainer");
  const bool says = trainer && trainer->value("strategy") != nullptr;
  Config config = trainer ? read_trainer(*trainer, job) : Config{};
  if (trains.value_or(false) && !says) config = deepspeed_alone(backend.path_of("type"), job);
  backend.finish();
  return config;
}

}  // namespace

bool is_ludwig(const Json& json) { return json.is_object() && (json.contains("backend") || json.contains("trainer")); }

Config read_ludwig(JsonReader& json, const JobSize& job) {
  if (!json.has("backend")) return read_backend(json, job);
  auto backend = json.section("backend");
  Config config = backend ? read_backend(*backend, job) : Config{};
  json.finish();
  return config;
}

}  // namespace dtrain::config
