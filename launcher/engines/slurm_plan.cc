// Reads and judges SLURM's variables.
#include "launcher/engines/slurm_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/engines/hostlist.h"
#include "launcher/engines/meeting_place.h"

namespace dtrain::launcher {
namespace {

constexpr std::uint32_t kFirstSpecialStep = 0xfffffff0;  // a batch script's, an interactive shell's, the prolog's
constexpr std::uint64_t kPortsApart = 31;                // jobs in a row leave room for steps in a row

Error misled(const std::string& what) {
  return {ErrorKind::usage, fmt::format("{}; to ignore SLURM use --standalone, or say where the nodes meet with "
                                        "--nnodes, --node-rank and --rdzv-endpoint",
                                        what)};
}

Result<void> one_task_a_node(const Variables& env, const std::string& id) {
  const auto most = most_tasks_a_node(variable(env, "SLURM_STEP_TASKS_PER_NODE"));
  if (!most) return misled(fmt::format("SLURM step {}: SLURM_STEP_TASKS_PER_NODE is not a list of numbers", id));
  if (*most == 1) return {};
  return Error{ErrorKind::usage,
               fmt::format("SLURM step {} has {} tasks on a node, and dtrain starts the workers itself: use srun "
                           "--ntasks-per-node=1, with --nproc for the workers; or --standalone for a job of its own in "
                           "every task",
                           id, *most)};
}

// Where this task is among the step's nodes.
Result<void> place(const Variables& env, SlurmStep& step) {
  auto hosts = expand_hostlist(variable(env, "SLURM_STEP_NODELIST"));
  if (!hosts) return misled(fmt::format("SLURM step {}: SLURM_STEP_NODELIST is {}", step.id, hosts.error().message));
  const auto rank = number(env, "SLURM_NODEID");
  if (hosts->size() != std::size_t(step.nodes) || !rank || *rank >= hosts->size())
    return misled(fmt::format("SLURM step {} has {} nodes, but SLURM_STEP_NODELIST names {} and SLURM_NODEID is '{}'",
                              step.id, step.nodes, hosts->size(), rank ? std::to_string(*rank) : "no number"));
  const std::string here = variable(env, "SLURMD_NODENAME");
  if (!here.empty() && here != (*hosts)[*rank])
    return misled(fmt::format("SLURM step {}: node {} of the step is {}, but SLURMD_NODENAME is another", step.id,
                              *rank, (*hosts)[*rank]));
  step.node_rank = static_cast<int>(*rank);
  step.host = hosts->front();
  step.hosts = std::move(*hosts);
  return {};
}

}  // namespace

std::optional<int> most_tasks_a_node(std::string_view text) {
  std::uint32_t most = 0;
  for (;;) {
    const auto comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    if (const auto times = part.find("(x"); times != std::string_view::npos) {
      if (!part.ends_with(')') || !number(part.substr(times + 2, part.size() - times - 3))) return std::nullopt;
      part = part.substr(0, times);
    }
    const auto tasks = number(part);
    if (!tasks || *tasks == 0 || *tasks > 1000000) return std::nullopt;
    most = std::max(most, *tasks);
    if (comma == std::string_view::npos) return static_cast<int>(most);
    text.remove_prefix(comma + 1);
  }
}

Result<std::optional<SlurmStep>> slurm_step(const Variables& env) {
  const auto job = number(env, "SLURM_JOB_ID");
  const auto id = number(env, "SLURM_STEP_ID");
  const auto nodes = number(env, "SLURM_STEP_NUM_NODES");
  const bool is_worker = env.contains("TORCHELASTIC_RUN_ID");
  if (!job || !id || *id >= kFirstSpecialStep || !nodes || *nodes == 0 || is_worker) return {std::nullopt};
  SlurmStep step;
  step.id = fmt::format("{}.{}", *job, *id);
  if (auto done = one_task_a_node(env, step.id); !done) return done.error();
  if (*nodes > kMostHosts) return misled(fmt::format("SLURM step {} has more than {} nodes", step.id, kMostHosts));
  step.nodes = static_cast<int>(*nodes);
  step.port = static_cast<std::uint16_t>(kFirstJobPort + (*job * kPortsApart + *id) % kJobPorts);
  if (auto done = place(env, step); !done) return done.error();
  return {std::move(step)};
}

}  // namespace dtrain::launcher
