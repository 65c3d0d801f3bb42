// Tested by test/unit/data/script/worker_job_test.cc.
#include "data/script/worker_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace dtrain::data {
namespace {

// A worker that dies takes the others of its job along. Then all begin again, and go on with what is there.
constexpr int kRestarts = 3;
constexpr int kWorkerSecondsToEnd = 5;  // once the job is asked to

bool says_count(const std::string& word) { return word.starts_with("--nproc=") || word.starts_with("--num-proc="); }

}  // namespace

std::optional<WorkerJob> worker_job_of(const nlohmann::json& request) {
  const nlohmann::json& dataset = request.at("dataset");
  if (dataset.contains("processor")) return std::nullopt;
  WorkerJob job;
  job.dtrain = request.value("dtrain", std::string());
  job.nodes = request.value("nodes", std::vector<std::string>());
  if (const auto workers = dataset.find("num_workers"); workers != dataset.end() && !workers->is_null())
    job.workers = workers->get<std::int64_t>();
  const bool is_one = job.workers ? *job.workers == 1 : job.nodes.empty();
  if (is_one || job.dtrain.empty()) return std::nullopt;
  return job;
}

std::vector<std::string> worker_job_words(const WorkerJob& job, const std::string& folder) {
  std::vector<std::string> words = {job.dtrain, "run"};
  if (job.nodes.empty()) {
    words.insert(words.end(), {"--engine=local", "--nnodes=1", fmt::format("--nproc={}", job.workers.value_or(1))});
  } else {
    std::copy_if(job.nodes.begin(), job.nodes.end(), std::back_inserter(words),
                 [&](const std::string& word) { return !job.workers || !says_count(word); });
    if (job.workers) words.push_back(fmt::format("--num-proc={}", *job.workers));
  }
  words.push_back(fmt::format("--max-restarts={}", kRestarts));
  words.push_back(fmt::format("--shutdown-timeout={}", kWorkerSecondsToEnd));
  words.insert(words.end(), {"--use-gpu=no", "--quiet", "--no-python",
                             job.dtrain.substr(0, job.dtrain.rfind('/') + 1) + "dtrain-data", "work", folder});
  return words;
}

}  // namespace dtrain::data
