// Tested by test/unit/cli/data/data_nodes_test.cc.
#include "cli/data/data_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/config/take_config.h"
#include "cli/engines/hosts.h"
#include "cli/engines/sent_words.h"
#include "cli/engines/srun.h"
#include "cli/nodes/nodes.h"
#include "cli/table/flags.h"

namespace dtrain::cli {
namespace {

// Where the agents are, and how they are reached.
constexpr std::array kNodeFlags = {FlagId::ssh,        FlagId::ssh_fanout, FlagId::spark,  FlagId::nnodes,
                                   FlagId::local_addr, FlagId::token_file, FlagId::tls_ca, FlagId::tls_cert,
                                   FlagId::tls_key,    FlagId::insecure};
constexpr const char* kNodesOfAllocation = "SLURM_JOB_NUM_NODES";

bool is_one(const std::string& count) { return count.empty() || count == "1"; }

bool has_several(const Options& options, const Host& host, const JobNodes& nodes) {
  if (nodes.hosts != nullptr) return nodes.hosts->hosts.size() > 1;
  if (nodes.cluster != nullptr) return nodes.cluster->nodes.most > 1;
  // A token in a variable is for this process alone, and another step would need it.
  if (!nodes.srun || host.token || is_one(host.variable(kNodesOfAllocation))) return false;
  const auto range = parse_nnodes(options.text(FlagId::nnodes));
  return !options.given(FlagId::nnodes) || (range && range->max > 1);
}

// srun gives a task one CPU where nobody says more. Since SLURM 22.05 it does not take sbatch's number.
std::string srun_words(const Options& options, const Host& host) {
  std::string words = options.text(FlagId::srun);
  const std::string of_nodes = host.variable("SLURM_JOB_CPUS_PER_NODE");  // "8(x3)", or "8(x2),4"
  const bool are_alike = of_nodes.find(',') == std::string::npos;
  // salloc says nothing of the node that it runs on.
  std::string cpus = host.variable("SLURM_CPUS_ON_NODE");
  if (cpus.empty()) cpus = of_nodes.substr(0, of_nodes.find('('));
  const std::vector<std::string> typed = split_at_blanks(words);
  if (std::any_of(typed.begin(), typed.end(), says_cpus) || !host.variable("SRUN_CPUS_PER_TASK").empty()) return words;
  const std::string of_batch = host.variable("SLURM_CPUS_PER_TASK");
  const std::string count = !of_batch.empty() ? of_batch : are_alike ? cpus : "";
  if (!count.empty()) words += fmt::format("{}--cpus-per-task={}", words.empty() ? "" : " ", count);
  return words;
}

// Those that are left of a list, by their names alone: slots are for training. An IPv6 address has brackets, so that
// slots can follow.
std::string names_of(const launcher::PlacementRequest& request) {
  std::string names;
  for (const launcher::PlacedHost& host : request.hosts) {
    const bool is_address = host.name.find(':') != host.name.npos && host.name.find('@') == host.name.npos;
    names += fmt::format("{}{}{}{}", names.empty() ? "" : ",", is_address ? "[" : "", host.name, is_address ? "]" : "");
  }
  return names;
}

// Whether a number of nodes goes along. A list has as many names as the job takes hosts, unless it takes fewer.
bool has_count(const JobNodes& nodes) { return nodes.hosts == nullptr || nodes.hosts->elastic; }

// All nodes of the allocation, if nobody says more.
std::string nodes_of_step(const Options& options, const Host& host) {
  const std::vector<std::string> typed = split_at_blanks(options.text(FlagId::srun));
  const bool is_said = options.given(FlagId::nnodes) || std::any_of(typed.begin(), typed.end(), says_nodes);
  return is_said ? "" : host.variable(kNodesOfAllocation);
}

}  // namespace

std::vector<std::string> words_for_nodes(const Options& options, const Host& host, const JobNodes& nodes) {
  std::vector<std::string> words;
  if (!has_several(options, host, nodes)) return words;
  if (nodes.cluster != nullptr) words.push_back(fmt::format("--engine={}", nodes.cluster->engine->name));
  if (nodes.srun) {
    words.push_back("--engine=slurm");
    if (const std::string srun = srun_words(options, host); !srun.empty()) words.push_back("--srun=" + srun);
  }
  if (nodes.hosts != nullptr) words.push_back("--hosts=" + names_of(*nodes.hosts));
  for (const FlagId id : kNodeFlags)
    if (options.given(id) && (id != FlagId::nnodes || has_count(nodes)))
      words.push_back(fmt::format("{}={}", spelled(flag(id)), options.text(id)));
  if (nodes.srun)
    if (const std::string count = nodes_of_step(options, host); !count.empty()) words.push_back("--nnodes=" + count);
  const bool by_cluster = nodes.cluster != nullptr && !options.given(FlagId::nnodes);
  words.push_back(by_cluster ? "--num-proc=auto" : "--nproc=1");
  return words;
}

Result<std::vector<std::string>> nodes_of_config(RawOptions raw, const Host& host) {
  if (auto said = take_config(raw, host); !said) return said.error();
  raw.command = {"dtrain-data"};
  const Options options(raw, host);
  const auto hosts = hosts_that_count(raw, options, host);
  if (!hosts) return hosts.error();
  if (*hosts) return words_for_nodes(options, host, {&**hosts, nullptr, false});
  const auto cluster = cluster_that_counts(raw, options, host);
  if (!cluster) return cluster.error();
  if (*cluster) return words_for_nodes(options, host, {nullptr, &**cluster, false});
  if (is_one(host.variable(kNodesOfAllocation))) return std::vector<std::string>();
  const auto step = srun_that_counts(raw, options, host);
  if (!step) return step.error();
  return words_for_nodes(options, host, {nullptr, nullptr, step->has_value()});
}

}  // namespace dtrain::cli
