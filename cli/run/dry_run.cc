// Prints a plan.
#include "cli/run/dry_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/base/text.h"
#include "cli/run/settings_text.h"
#include "launcher/job/worker_env.h"
#include "launcher/replicas/group_specs.h"
#include "rendezvous/base/counted.h"

namespace dtrain::cli {
namespace {

// What several nodes find out only when they meet.
void mark_agreed(const launcher::NodesSpec& nodes, launcher::Environment& env) {
  for (auto& [name, value] : env) {
    const bool known =
        (name == "GROUP_RANK" && nodes.node_rank >= 0) || (name == "GROUP_WORLD_SIZE" && nodes.min == nodes.max);
    const bool of_job = name == "RANK" || name == "ROLE_RANK" || name == "WORLD_SIZE" || name == "ROLE_WORLD_SIZE" ||
                        name == "GROUP_RANK" || name == "GROUP_WORLD_SIZE";
    if (of_job && !known) value = "<agreed with the other nodes>";
  }
}

launcher::Environment environment_of(const launcher::JobSpec& spec, int local_rank) {
  launcher::Assignment assignment;
  assignment.world_size = assignment.role_world_size = spec.nproc_per_node;
  assignment.master_addr = spec.nodes.master_addr;
  assignment.master_port = spec.nodes.port;
  assignment.node_rank = std::max(0, spec.nodes.node_rank);
  assignment.nnodes = spec.nodes.max;
  launcher::WorkerPaths paths;
  if (spec.log_dir != "/dev/null") {
    paths.round = "<log folder>/attempt_0";
    paths.error_file = fmt::format("{}/{}/error.json", paths.round, local_rank);
  }
  launcher::Environment env = launcher::worker_env(spec, assignment, local_rank, paths);
  for (auto& [name, value] : env)
    if (name == "MASTER_PORT" && value == "0") value = "<chosen at start>";
  if (spec.nodes.several()) mark_agreed(spec.nodes, env);
  return env;
}

std::string command_line(const launcher::JobSpec& spec, int local_rank) {
  const auto dollars = spec.collapse_double_dollar ? launcher::DoubleDollar::collapse : launcher::DoubleDollar::keep;
  std::string out;
  for (const std::string& arg : spec.argv)
    out += (out.empty() ? "" : " ") + shell_quoted(launcher::substitute_local_rank(arg, local_rank, dollars));
  return out;
}

std::string workers_shown(const launcher::JobSpec& spec, const std::map<std::string, std::string>& own) {
  std::map<std::string, std::string> shared;
  launcher::Environment first = environment_of(spec, 0), last = environment_of(spec, spec.nproc_per_node - 1);
  for (const auto& entry : first)
    if (spec.nproc_per_node == 1 || std::find(last.begin(), last.end(), entry) != last.end()) shared.insert(entry);

  std::string out = fmt::format("\n{}environment of every worker, in addition to dtrain's own\n", spec.lead);
  for (const auto& [name, value] : first)
    if (shared.contains(name)) out += fmt::format("  {}={}\n", name, value);
  for (const auto& [name, value] : launcher::worker_env_defaults())
    if (!own.contains(name)) out += fmt::format("  {}={}\n", name, value);
  for (int rank = 0; rank < spec.nproc_per_node; ++rank) {
    out += fmt::format("\nworker {}\n", rank);
    for (const auto& [name, value] : environment_of(spec, rank))
      if (!shared.contains(name)) out += fmt::format("  {}={}\n", name, value);
    if (!spec.cpus.empty())
      out += fmt::format("  CPUs {}\n", launcher::cpu_ranges(spec.cpus[static_cast<std::size_t>(rank)]));
    out += fmt::format("  {}\n", command_line(spec, rank));
  }
  return out;
}

}  // namespace

std::string describe(const Plan& plan, const std::map<std::string, std::string>& own) {
  const launcher::JobSpec& spec = plan.spec;
  const auto groups = launcher::group_specs(spec);
  const std::string parts = groups.empty() ? "" : counted(groups.size(), "group") + " of ";
  std::string out = fmt::format("{}: {}{} of {} on this node; nothing was started\nprogram {}\n\n", spec.run_id, parts,
                                counted(spec.nproc_per_node, "worker"), spec.program, plan.executed_file);
  out += "settings and where they come from\n" + chosen_settings(plan.settings);
  if (groups.empty()) out += workers_shown(spec, own);
  for (const launcher::JobSpec& group : groups) out += workers_shown(group, own);
  return out;
}

}  // namespace dtrain::cli
