// Tested by test/unit/cli/data/data_nodes_test.cc.
#include "cli/data/data_nodes.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "cli/base/parse_value.h"
#include "cli/base/text.h"
#include "cli/config/take_config.h"
#include "cli/engines/hosts.h"
#include "cli/engines/sent_words.h"
#include "cli/engines/srun.h"
#include "cli/nodes/nodes.h"
#include "cli/table/flags.h"
#include "launcher/engines/hostfile.h"

namespace dtrain::cli {
namespace {

// Where the agents are, and how they are reached.
constexpr std::array kNodeFlags = {FlagId::ssh,        FlagId::ssh_fanout, FlagId::spark,
                                   FlagId::local_addr, FlagId::token_file, FlagId::tls_ca,
                                   FlagId::tls_cert,   FlagId::tls_key,    FlagId::insecure};

bool is_one(const std::string& count) { return count.empty() || count == "1"; }

bool has_several(const Options& options, const Host& host, const JobNodes& nodes) {
  if (nodes.hosts != nullptr) return nodes.hosts->hosts.size() > 1;
  if (nodes.cluster != nullptr) return nodes.cluster->nodes.most > 1;
  // A token in a variable is for this process alone, and another step would need it.
  if (!nodes.srun || host.token || is_one(host.variable(kNodesOfAllocation))) return false;
  const auto range = parse_nnodes(options.text(FlagId::nnodes));
  return !options.given(FlagId::nnodes) || (range && range->max > 1);
}

// "8(x2),4" has 4.
int fewest_cpus(const std::string& of_nodes) {
  int fewest = 0;
  for (const std::string& each : split(of_nodes, ',')) {
    const auto cpus = parse_number(each.substr(0, each.find('(')), 1, kMostRank);
    if (cpus && (fewest == 0 || *cpus < fewest)) fewest = *cpus;
  }
  return fewest;
}

// srun gives a task one CPU where nobody says more. The step has one task on each node, which is to have all CPUs of
// the allocation there; srun wants one number for all nodes.
std::string srun_words(const Options& options, const Host& host) {
  std::string words = options.text(FlagId::srun);
  if (has_cpus_said(options, host)) return words;
  if (const int cpus = fewest_cpus(host.variable("SLURM_JOB_CPUS_PER_NODE")); cpus > 0)
    words += fmt::format("{}--cpus-per-task={}", words.empty() ? "" : " ", cpus);
  return words;
}

// Those that are left of a list, by their names alone: slots are for training.
std::string names_of(const launcher::PlacementRequest& request) {
  std::string names;
  for (const launcher::PlacedHost& host : request.hosts)
    names += fmt::format("{}{}", names.empty() ? "" : ",", launcher::name_in_list(host.name));
  return names;
}

// How many nodes the job has. Nothing: that is not known, or a list has as many names as the job takes hosts.
std::optional<NodeRange> nodes_in(const Options& options, const Host& host, const JobNodes& nodes) {
  if (nodes.srun) return nodes_of_step(options, host);
  if (!options.given(FlagId::nnodes) || (nodes.hosts != nullptr && !nodes.hosts->elastic)) return std::nullopt;
  const auto range = parse_nnodes(options.text(FlagId::nnodes));
  return range ? std::optional(*range) : std::nullopt;
}

// In plain digits, whatever the user's look like.
std::string nodes_word(const NodeRange& range) {
  return range.min == range.max ? fmt::format("--nnodes={}", range.min)
                                : fmt::format("--nnodes={}:{}", range.min, range.max);
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
    if (options.given(id)) words.push_back(fmt::format("{}={}", spelled(flag(id)), options.text(id)));
  if (const auto count = nodes_in(options, host, nodes)) words.push_back(nodes_word(*count));
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
