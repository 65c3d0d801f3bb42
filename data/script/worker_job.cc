// Tested by test/unit/data/script/worker_job_test.cc.
#include "data/script/worker_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "data/base/number_in.h"

namespace dtrain::data {
namespace {

// A worker that dies takes the others of its job along. Then all begin again, and go on with what is there.
constexpr int kRestarts = 3;
constexpr int kWorkerSecondsToEnd = 5;  // once the job is asked to

bool says_count(const std::string& word) { return word.starts_with("--nproc=") || word.starts_with("--num-proc="); }

// Of a list of hosts of which all count. 0: how many nodes there will be is not known here.
std::int64_t hosts_in(const std::vector<std::string>& nodes) {
  std::int64_t hosts = 0;
  for (const std::string& word : nodes) {
    for (const char* each : {"--hostfile=", "--include=", "--exclude=", "--nnodes="})
      if (word.starts_with(each)) return 0;
    if (word.starts_with("--hosts=")) hosts = 1 + std::count(word.begin(), word.end(), ',');
  }
  return hosts;
}

}  // namespace

std::size_t WorkerJob::on_a_host() const {
  const std::int64_t all = workers.value_or(1);
  if (nodes.empty()) return static_cast<std::size_t>(all);
  const std::int64_t hosts = hosts_in(nodes);
  return workers && hosts > 0 ? static_cast<std::size_t>((all + hosts - 1) / hosts) : 1;
}

std::optional<WorkerJob> worker_job_of(const nlohmann::json& request) {
  const nlohmann::json& dataset = request.at("dataset");
  if (dataset.contains("processor")) return std::nullopt;
  WorkerJob job;
  job.dtrain = request.value("dtrain", std::string());
  job.nodes = request.value("nodes", std::vector<std::string>());
  job.workers = number_in(dataset, "num_workers");
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
    // A host's slots are for training: by them, the first hosts would get all workers.
    if (job.workers && hosts_in(job.nodes) > 0)
      words.push_back(fmt::format("--nproc={}", job.on_a_host()));
    else if (job.workers)
      words.push_back(fmt::format("--num-proc={}", *job.workers));
  }
  words.push_back(fmt::format("--max-restarts={}", kRestarts));
  words.push_back(fmt::format("--shutdown-timeout={}", kWorkerSecondsToEnd));
  words.insert(words.end(), {"--use-gpu=no", "--quiet", "--no-python",
                             job.dtrain.substr(0, job.dtrain.rfind('/') + 1) + "dtrain-data", "work", folder});
  return words;
}

}  // namespace dtrain::data
