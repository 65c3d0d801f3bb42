// Fills flags from SLURM's variables.
#include "cli/engines/slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "cli/base/usage_error.h"
#include "cli/engines/engine.h"
#include "cli/nodes/nodes.h"
#include "launcher/engines/slurm_plan.h"
#include "rendezvous/base/counted.h"
#include "rendezvous/net/address_text.h"

namespace dtrain::cli {
namespace {

// SLURM's own SIGKILL comes KillWait after its SIGTERM, 30 s where the site has not chosen another time. The job has
// ended by then, with its report and its exit code.
constexpr const char* kWithinKillWait = "25";

enum class Numbering { none, by_slurm, as_they_come };

// How the nodes of the step get their numbers. Of MIN:MAX nodes there are those of the step, and as many are narrowed
// to. None: the user means other nodes than those of the step.
Result<Numbering> numbering(const launcher::SlurmStep& step, Options& options) {
  if (!options.given(FlagId::nnodes)) return Numbering::by_slurm;
  const auto range = parse_nnodes(options.text(FlagId::nnodes));
  if (!range || range->min == range->max)  // an error is told by resolve_nodes()
    return range && range->min == step.nodes ? Numbering::by_slurm : Numbering::none;
  if (step.nodes < range->min)
    return options.blame(FlagId::nnodes, usage_error(fmt::format("the step of SLURM has {}: give srun more with -N",
                                                                 counted(step.nodes, "node"))));
  const int most = std::min(range->max, step.nodes);
  options.narrow(FlagId::nnodes, range->min == most ? std::to_string(most) : fmt::format("{}:{}", range->min, most));
  return range->min == most ? Numbering::by_slurm : Numbering::as_they_come;
}

}  // namespace

Result<void> take_from_slurm(const RawOptions& raw, const Host& host, Options& options) {
  const auto speaks = may_speak("slurm", raw, host, options);
  if (!speaks) return speaks.error();
  if (!*speaks || host.mpi) return {};
  auto found = launcher::slurm_step(host.env);
  if (!found) return found.error();
  if (!*found) {
    if (!is_named("slurm", options)) return {};
    return usage_error(
        "--engine slurm: this is no step of SLURM; start dtrain by srun, one task on each node: srun "
        "--ntasks-per-node 1 dtrain run ...");
  }
  options.suggest(FlagId::shutdown_timeout, kWithinKillWait, "SLURM_STEP_ID");
  const launcher::SlurmStep& step = **found;
  const std::string nodes = std::to_string(step.nodes);
  const auto numbered = numbering(step, options);
  if (!numbered) return numbered.error();
  if (*numbered == Numbering::none || step.nodes == 1) return {};
  const auto ha = options.on(FlagId::ha);
  if (!ha) return ha.error();
  const std::string port = port_or(options, std::to_string(step.port));
  options.suggest(FlagId::nnodes, nodes, "SLURM_STEP_NUM_NODES");
  // With --ha three of them, and the nodes as they come.
  std::string endpoint;
  for (std::size_t i = 0; i < (*ha ? std::min<std::size_t>(3, step.hosts.size()) : 1); ++i) {
    const std::string address = host.slurm_address(step.hosts[i]);
    endpoint += (i == 0 ? "" : ",") + address_text(address, port);
  }
  if (!*ha && *numbered == Numbering::by_slurm)
    options.suggest(FlagId::node_rank, std::to_string(step.node_rank), "SLURM_NODEID");
  options.suggest(FlagId::rdzv_endpoint, endpoint, kSlurmNodes);
  options.suggest(FlagId::run_id, step.id, "SLURM_STEP_ID");
  return {};
}

}  // namespace dtrain::cli
