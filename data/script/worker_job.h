#pragma once
// The job of dtrain's own whose workers share the work of the native processor, on several nodes or here. Pure.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::data {

struct WorkerJob {
  std::string dtrain;              // the program; dtrain-data is beside it
  std::vector<std::string> nodes;  // flags that start one worker on each node: cli/data/data_nodes.h. Empty: here
  std::optional<std::int64_t> workers;
};

// Of a request (data/commands/data_command.h). Nothing: one process does all.
std::optional<WorkerJob> worker_job_of(const nlohmann::json& request);

// Where the workers are: as many as were asked for, evenly on the nodes. Hosts of a list may differ by one. Nodes of a
// scheduler are alike, so there may be more workers than were asked for, or fewer if nodes of a range are missing.
// Where it is not known how many nodes there are, dtrain run places them (--num-proc).
struct WorkerSpread {
  std::vector<std::string> words;  // flags of dtrain run
  std::size_t on_a_host = 1;       // workers that share a host's memory, at most
  std::string note{};              // for the user, if there may be more or fewer than were asked for
};
WorkerSpread spread_of(const WorkerJob& job);

// The command that does the work on `folder`.
std::vector<std::string> worker_job_words(const WorkerJob& job, const std::string& folder);

}  // namespace dtrain::data
