#pragma once
// The job of dtrain's own whose workers share the work of the native processor: one on each node, or several here.
// Pure.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::data {

struct WorkerJob {
  std::string dtrain;              // the program; dtrain-data is beside it
  std::vector<std::string> nodes;  // flags that say where: cli/data/data_nodes.h. Empty: here
  std::optional<std::int64_t> workers;

  // Workers that share a host's memory and cores, at most. Of nodes that are no plain list of hosts it is not known: 1.
  std::size_t on_a_host() const;
};

// Of a request (data/commands/data_command.h). Nothing: one process does all.
std::optional<WorkerJob> worker_job_of(const nlohmann::json& request);

// The command that does the work on `folder`.
std::vector<std::string> worker_job_words(const WorkerJob& job, const std::string& folder);

}  // namespace dtrain::data
