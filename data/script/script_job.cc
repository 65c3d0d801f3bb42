// Tested by test/unit/data/script/script_job_test.cc.
#include "data/script/script_job.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "data/base/number_in.h"

namespace dtrain::data {
namespace {

// The Python that knows Ray's cluster, where it is not the one of the script.
constexpr std::string_view kEnginePython = "DTRAIN_ENGINE_PYTHON";
// Where MUNGE is, by which nodes recognise each other.
constexpr std::string_view kMungeSocket = "DTRAIN_MUNGE_SOCKET";
// How inputs in an object store are read.
constexpr std::string_view kStoreTimeout = "DTRAIN_STORE_TIMEOUT_S";
// A partition may have all its tries (MOST_TRIES of parts.py), and is named by the start after them.
constexpr int kTriesOfPartition = 3;
constexpr int kSecondsToEnd = 5;  // once the job is asked to

// For Ray Data one process here is enough: it has workers of its own.
std::vector<std::string> where_it_runs(const ScriptJob& job) {
  if (job.type == "ray") return {"--engine=local", "--nnodes=1", "--nproc=1"};
  const std::string workers = job.workers ? std::to_string(*job.workers) : "";
  if (job.on_ray)
    return {"--engine=ray", "--use-gpu=no", fmt::format("--num-proc={}", workers.empty() ? "auto" : workers)};
  return {"--engine=local", "--nnodes=1", fmt::format("--nproc={}", workers.empty() ? "cpu" : workers)};
}

bool is_of_dtrain(std::string_view name) {
  return name != kEnginePython && name != kMungeSocket && name != kStoreCredentials && name != kStoreTimeout &&
         (name.starts_with("DTRAIN_") || name.starts_with("PET_"));
}

}  // namespace

std::optional<ScriptJob> script_job_of(const nlohmann::json& request) {
  const nlohmann::json& dataset = request.at("dataset");
  const auto type = dataset.find("processor");
  if (type == dataset.end()) return std::nullopt;
  ScriptJob job;
  job.dtrain = request.value("dtrain", std::string());
  job.type = type->get<std::string>();
  job.script = dataset.at("script").get<std::string>();
  job.workers = number_in(dataset, "num_workers");
  if (!job.workers) job.workers = number_in(request, "threads");
  job.parallelism = number_in(dataset, "parallelism");
  if (const auto persist = dataset.find("persist"); persist != dataset.end() && persist->is_boolean())
    job.persist = persist->get<bool>();
  job.on_ray = request.value("engine", std::string()) == "ray";
  return job;
}

nlohmann::json key_of_script(const ScriptJob& job, const std::string& sha256) {
  nlohmann::json key = {{"type", job.type}, {"sha256", sha256}};
  // Row groups are the partitions of `python`, however many there should be.
  if (job.type != "python" && job.parallelism) key["parallelism"] = *job.parallelism;
  return key;
}

nlohmann::json without_script(nlohmann::json recipe) {
  for (const char* name : {"processor", "script", "num_workers"}) recipe.erase(name);
  return recipe;
}

std::optional<std::string> not_parquet(const nlohmann::json& recipe, const std::vector<std::string>& files) {
  const auto format = recipe.find("format");
  if (format != recipe.end() && format->is_string())
    return *format == "parquet" || files.empty() ? std::nullopt : std::optional(files[0]);
  for (const std::string& file : files)
    if (!file.ends_with(".parquet")) return file;
  return std::nullopt;
}

std::vector<std::string> script_job_words(const ScriptJob& job, const std::string& list, const std::string& output) {
  std::vector<std::string> words = {job.dtrain, "run"};
  for (std::string& word : where_it_runs(job)) words.push_back(std::move(word));
  words.push_back(fmt::format("--max-restarts={}", job.type == "python" ? kTriesOfPartition : 0));
  words.push_back(fmt::format("--shutdown-timeout={}", kSecondsToEnd));
  const std::string kind = job.type == "python" ? "process" : job.type;
  for (const std::string& word :
       {std::string("--quiet"), std::string("-m"), std::string("dtrain_data"), kind, job.script, "@" + list, output})
    words.push_back(word);
  return words;
}

std::map<std::string, std::string> data_job_environment(std::map<std::string, std::string> env) {
  std::erase_if(env, [](const auto& one) { return is_of_dtrain(one.first); });
  return env;
}

std::map<std::string, std::string> script_job_environment(const ScriptJob& job, std::map<std::string, std::string> env,
                                                          const std::string& modules, const std::string& build) {
  env = data_job_environment(std::move(env));
  if (job.parallelism) env["DTRAIN_PARALLELISM"] = std::to_string(*job.parallelism);
  if (job.persist) env["DTRAIN_PERSIST"] = *job.persist ? "true" : "false";
  if (job.on_ray) env[kDataBuild] = build;
  if (!modules.empty()) {
    std::string& path = env["PYTHONPATH"];
    path = path.empty() ? modules : modules + ":" + path;
  }
  return env;
}

}  // namespace dtrain::data
