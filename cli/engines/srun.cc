#include "cli/engines/srun.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "cli/base/parse_value.h"
#include "cli/base/usage_error.h"
#include "cli/engines/engine.h"
#include "cli/engines/sent_words.h"
#include "cli/nodes/nodes.h"
#include "launcher/engines/slurm_plan.h"

namespace dtrain::cli {
namespace {

// Seconds from the end of the first agent. All end with the job, and each gives its workers up before that.
constexpr int kWaitForLast = 60;

// An allocation has its number of nodes, and a step takes all that the range allows. srun is told one number, as
// --nodes=1-3 in an allocation ends SLURM 22.05's slurmctld.
NodeRange within_allocation(NodeRange asked, const Host& host) {
  const auto all = parse_number(host.variable(kNodesOfAllocation), 1, kMostRank);
  if (!all) return asked;
  const int count = std::clamp(*all, asked.min, asked.max);
  return {count, count};
}

// "2-4" of 2:4.
std::string nodes_text(const NodeRange& range) {
  return range.min == range.max ? std::to_string(range.min) : fmt::format("{}-{}", range.min, range.max);
}

// Of srun's own words, one that says how many nodes there are, or how many tasks: each node has one.
bool says_nodes(const std::string& word) {
  return word.starts_with("-N") || word.starts_with("--nodes") || word.starts_with("-n") || word == "--ntasks" ||
         word.starts_with("--ntasks=");
}

bool says_cpus(const std::string& word) {
  return word.starts_with("-c") || word.starts_with("--cpus-per-") || word.starts_with("--exclusive") ||
         word.starts_with("--exact");
}

bool has_typed(const Options& options, bool (&says)(const std::string& word)) {
  const std::vector<std::string> typed = split_at_blanks(options.text(FlagId::srun));
  return std::any_of(typed.begin(), typed.end(), says);
}

bool has_nodes_typed(const Options& options) { return has_typed(options, says_nodes); }

}  // namespace

std::vector<std::string> srun_that_looks(const std::vector<std::string>& step, const Host& host,
                                         const std::string& folder) {
  std::vector<std::string> words = {find_in_path("srun", host)};
  std::copy_if(step.begin() + 1, std::find(step.begin(), step.end(), host.own_file()), std::back_inserter(words),
               [](const std::string& word) { return word != "--pty"; });
  // The user's words may send the output of the job elsewhere. A step whose srun is killed goes on without a limit.
  words.insert(words.end(), {"--output=all", "--error=all", "--time=1", host.own_file(), "agent", "--look=" + folder});
  return words;
}

bool has_cpus_said(const Options& options, const Host& host) {
  return has_typed(options, says_cpus) || !host.variable("SRUN_CPUS_PER_TASK").empty();
}

std::optional<NodeRange> nodes_of_step(const Options& options, const Host& host) {
  if (options.given(FlagId::nnodes)) {
    const auto asked = parse_nnodes(options.text(FlagId::nnodes));
    if (!asked || (asked->min < asked->max && has_nodes_typed(options))) return std::nullopt;
    return within_allocation(*asked, host);
  }
  const auto all = parse_number(host.variable(kNodesOfAllocation), 1, kMostRank);
  return all && !has_nodes_typed(options) ? std::optional(NodeRange{*all, *all}) : std::nullopt;
}

Result<std::optional<int>> part_of_step(Options options, const Host& host) {
  if (const std::string all = host.variable(kNodesOfAllocation); !all.empty() && !has_nodes_typed(options))
    options.suggest(FlagId::nnodes, all, kNodesOfAllocation);
  const auto range = parse_nnodes(options.text(FlagId::nnodes));
  if (!options.given(FlagId::nnodes) || !range || range->min != range->max) return std::optional<int>();
  return part_of_num_proc(options);
}

Result<std::optional<std::vector<std::string>>> srun_that_counts(const RawOptions& raw, const Options& options,
                                                                 const Host& host) {
  const std::optional<std::vector<std::string>> none;
  const auto speaks = may_speak("slurm", raw, host, options);
  if (!speaks) return speaks.error();
  if (!is_named("slurm", options)) {
    if (!options.insists_on(FlagId::srun)) return none;
    return usage_error(fmt::format("{} is for --engine slurm: give that too", options[FlagId::srun].where));
  }
  const auto step = launcher::slurm_step(host.env);
  if (!step) return step.error();
  if (*step) return none;
  if (raw.as_torchrun)
    return usage_error("--engine slurm needs the name dtrain, by which SLURM's values count: dtrain run");
  if (raw.command.empty() && !options.given(FlagId::print_config))
    return usage_error("no program to start: dtrain run --engine slurm PROGRAM");
  if (find_in_path("srun", host).empty())
    return usage_error("--engine slurm: srun is not in PATH; is this a host of the cluster?");
  const auto nodes = parse_nnodes(options.text(FlagId::nnodes));
  if (!nodes) return options.blame(FlagId::nnodes, nodes.error());
  const std::vector<std::string> typed = split_at_blanks(options.text(FlagId::srun));
  std::vector<std::string> words = {"srun", "--ntasks-per-node=1", "--mpi=none"};
  if (options.given(FlagId::nnodes)) words.push_back("--nodes=" + nodes_text(within_allocation(*nodes, host)));
  const bool elastic = nodes->min < nodes->max;
  if (elastic)  // the others go on without a node that is lost
    words.insert(words.end(), {"--no-kill", "--kill-on-bad-exit=0"});
  // With a fixed number srun would wait for ever for the task of a host that is lost, with agents on the others that
  // have ended. With a range it must, whatever the site's WaitTime is.
  if (host.variable("SLURM_WAIT").empty()) words.push_back(fmt::format("--wait={}", elastic ? 0 : kWaitForLast));
  // A task has one CPU where nobody says more, and all workers of a node are in one task.
  const bool has_cpus = has_cpus_said(options, host) || !host.variable("SLURM_CPUS_PER_TASK").empty();
  const auto part = part_of_step(options, host);
  if (!part) return part.error();
  const auto workers = *part ? Result<int>(**part) : parse_number(options.text(FlagId::nproc), 1, kMostRank);
  if (workers && *workers > 1 && !has_cpus) words.push_back(fmt::format("--cpus-per-task={}", *workers));
  words.insert(words.end(), typed.begin(), typed.end());
  words.insert(words.end(), {host.own_file(), "run", "--engine=slurm"});
  const auto rest = words_to_send(raw);
  words.insert(words.end(), rest.begin(), rest.end());
  return std::optional(std::move(words));
}

}  // namespace dtrain::cli
