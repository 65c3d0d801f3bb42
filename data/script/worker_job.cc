// Tested by test/unit/data/script/worker_job_test.cc.
#include "data/script/worker_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>

#include "data/base/number_in.h"

namespace dtrain::data {
namespace {

using FlagWords = std::vector<std::string>;

// A worker that dies takes the others of its job along. Then all begin again, and go on with what is there.
constexpr int kRestarts = 3;
constexpr int kWorkerSecondsToEnd = 5;  // once the job is asked to

constexpr std::string_view kHosts = "--hosts=", kNodes = "--nnodes=", kEngine = "--engine=";

// The value of a flag of this name. Empty: it is not there.
std::string_view value_in(const FlagWords& words, std::string_view flag) {
  for (const std::string& word : words)
    if (word.starts_with(flag)) return std::string_view(word).substr(flag.size());
  return {};
}

// Those flags that do not say how many workers or nodes there are, and on which hosts.
FlagWords how_reached(const FlagWords& nodes) {
  FlagWords kept;
  std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(kept), [](const std::string& word) {
    return !word.starts_with("--nproc=") && !word.starts_with("--num-proc=") && !word.starts_with(kHosts) &&
           !word.starts_with(kNodes);
  });
  return kept;
}

std::vector<std::string_view> host_names(std::string_view list) {
  std::vector<std::string_view> names;
  while (!list.empty()) {
    names.push_back(list.substr(0, list.find(',')));
    list.remove_prefix(std::min(list.size(), names.back().size() + 1));
  }
  return names;
}

struct NodeCount {
  std::int64_t least = 0, most = 0;
};

// "N" or "MIN:MAX" in plain digits: dtrain has written them.
NodeCount counted_in(std::string_view text) {
  NodeCount count;
  const std::size_t colon = text.find(':');
  const auto number = [](std::string_view digits, std::int64_t& value) {
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
  };
  number(text.substr(0, colon), count.least);
  count.most = count.least;
  if (colon != text.npos) number(text.substr(colon + 1), count.most);
  return count;
}

std::string nodes_word(std::int64_t least, std::int64_t most) {
  return least < most ? fmt::format("{}{}:{}", kNodes, least, most) : fmt::format("{}{}", kNodes, most);
}

// The first hosts have one more if they are no divisor.
WorkerSpread over_hosts(const FlagWords& nodes, std::string_view list, std::int64_t workers) {
  std::vector<std::string_view> names = host_names(list);
  const auto hosts = std::min<std::int64_t>(workers, std::ssize(names));
  names.resize(static_cast<std::size_t>(hosts));
  std::string placed;
  for (std::int64_t i = 0; i < hosts; ++i)
    placed += fmt::format("{}{}:{}", i == 0 ? "" : ",", names[static_cast<std::size_t>(i)],
                          workers / hosts + (i < workers % hosts ? 1 : 0));
  WorkerSpread spread{how_reached(nodes), static_cast<std::size_t>((workers + hosts - 1) / hosts)};
  spread.words.push_back(std::string(kHosts) + placed);
  if (const NodeCount count = counted_in(value_in(nodes, kNodes)); count.least < count.most && count.least < hosts)
    spread.words.push_back(nodes_word(count.least, hosts));
  return spread;
}

// A node on Spark is a task, and a host may have several.
std::size_t on_a_host(const FlagWords& nodes, std::int64_t count, std::int64_t of_each) {
  return static_cast<std::size_t>(value_in(nodes, kEngine) == "spark" ? count * of_each : of_each);
}

WorkerSpread over_alike(const FlagWords& nodes, NodeCount there, std::int64_t workers) {
  const std::int64_t most = std::min(workers, there.most), least = std::min(there.least, most);
  const std::int64_t of_each = (workers + most - 1) / most;
  WorkerSpread spread{how_reached(nodes), on_a_host(nodes, most, of_each)};
  spread.words.push_back(nodes_word(least, most));
  spread.words.push_back(fmt::format("--nproc={}", of_each));
  if (most * of_each != workers || least < most)
    spread.note = fmt::format(
        "backend.processor.num_workers: each node has {} of the {} processes{}", of_each, workers,
        least < most
            ? fmt::format(", so that {} to {} nodes have {} to {}", least, most, least * of_each, most * of_each)
            : fmt::format(", which cannot be divided evenly among {} nodes: there are {}", most, most * of_each));
  return spread;
}

// Whoever starts them finds nodes for all. One host might have all of them.
WorkerSpread where_there_is_room(const FlagWords& nodes, std::int64_t workers) {
  WorkerSpread spread{how_reached(nodes), static_cast<std::size_t>(workers)};
  spread.words.push_back(fmt::format("--num-proc={}", workers));
  return spread;
}

}  // namespace

std::optional<WorkerJob> worker_job_of(const nlohmann::json& request) {
  const nlohmann::json& dataset = request.at("dataset");
  if (dataset.contains("processor")) return std::nullopt;
  WorkerJob job;
  job.dtrain = request.value("dtrain", std::string());
  job.nodes = request.value("nodes", FlagWords());
  job.workers = number_in(dataset, "num_workers");
  const bool is_one = job.workers ? *job.workers == 1 : job.nodes.empty();
  if (is_one || job.dtrain.empty()) return std::nullopt;
  return job;
}

WorkerSpread spread_of(const WorkerJob& job) {
  const std::int64_t workers = job.workers.value_or(1);
  if (job.nodes.empty())
    return {{"--engine=local", "--nnodes=1", fmt::format("--nproc={}", workers)}, static_cast<std::size_t>(workers)};
  const NodeCount there = counted_in(value_in(job.nodes, kNodes));
  if (!job.workers) return {job.nodes, on_a_host(job.nodes, std::max<std::int64_t>(there.most, 1), 1)};
  if (const auto list = value_in(job.nodes, kHosts); !list.empty()) return over_hosts(job.nodes, list, workers);
  return there.most > 0 ? over_alike(job.nodes, there, workers) : where_there_is_room(job.nodes, workers);
}

std::vector<std::string> worker_job_words(const WorkerJob& job, const std::string& folder) {
  FlagWords words = {job.dtrain, "run"};
  const WorkerSpread spread = spread_of(job);
  words.insert(words.end(), spread.words.begin(), spread.words.end());
  words.push_back(fmt::format("--max-restarts={}", kRestarts));
  words.push_back(fmt::format("--shutdown-timeout={}", kWorkerSecondsToEnd));
  words.insert(words.end(), {"--use-gpu=no", "--quiet", "--no-python",
                             job.dtrain.substr(0, job.dtrain.rfind('/') + 1) + "dtrain-data", "work", folder});
  return words;
}

}  // namespace dtrain::data
