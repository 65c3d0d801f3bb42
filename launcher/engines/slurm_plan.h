#pragma once
// What SLURM's variables say about the job that `srun dtrain run` is to form: one agent on each node of the step.
// Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/engines/variables.h"
#include "rendezvous/base/result.h"

namespace dtrain::launcher {

// A job step that `srun` has started, as one of its tasks sees it.
struct SlurmStep {
  std::string id;  // "4711.0": job and step
  int nodes = 1;   // >= 1
  int node_rank = 0;
  std::string host;                // the step's first node, as SLURM calls it
  std::vector<std::string> hosts;  // all of them, by node rank
  std::uint16_t port = 0;          // on it, the same for all tasks of the step and seldom that of another step
};

// Nothing: not in a step; or in an allocation's own script or shell, which are one process however many nodes there
// are; or in a worker, whose variables are those of the job that it belongs to. Error: several tasks on one node, or
// variables that contradict each other.
Result<std::optional<SlurmStep>> slurm_step(const Variables& env);

// "2(x3),1": the greatest number of tasks on a node; nothing if the text has another form.
std::optional<int> most_tasks_a_node(std::string_view text);

}  // namespace dtrain::launcher
