// Tested by test/unit/cli/run/job_layout_test.cc.
#include "cli/run/job_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/base/parse_value.h"
#include "cli/base/text.h"
#include "cli/engines/engine.h"
#include "cli/engines/slurm.h"
#include "cli/engines/srun.h"
#include "cli/nodes/nodes.h"
#include "launcher/base/cpu_set.h"
#include "launcher/engines/hostlist.h"
#include "rendezvous/base/counted.h"
#include "rendezvous/net/address_text.h"

namespace dtrain::cli {
namespace {

using LayoutJson = nlohmann::ordered_json;

const Setting& of(const std::vector<Setting>& settings, FlagId id) {
  const std::string name = spelled(flag(id));
  return *std::find_if(settings.begin(), settings.end(), [&](const Setting& each) { return each.flag == name; });
}

bool is_default(const Setting& setting) { return setting.origin == "default"; }

// What the settings say, whoever starts the agents. `has_slots`: hosts say how many workers they have.
void add_facts(const std::vector<Setting>& settings, const Setting& engine, std::string meeting, JobLayout& layout,
               bool has_slots = false) {
  const auto add = [&](const char* name, std::string value, const Setting& from) {
    layout.facts.push_back({name, std::move(value), from.origin});
  };
  add("engine", engine.value, engine);
  const Setting& all = of(settings, FlagId::num_proc);
  const Setting& each = of(settings, FlagId::nproc);
  if (!is_default(all))
    add("workers", all.value + (all.value == "auto" ? "" : " in all"), all);
  else if (has_slots && is_default(each))
    add("workers", "the slots of the hosts", each);
  else
    add("workers", each.value + " on each node", each);
  if (const Setting& takes = of(settings, FlagId::resources); !takes.value.empty())
    add("each takes", takes.value, takes);
  if (const Setting& use = of(settings, FlagId::use_gpu); !is_default(use)) add("use GPUs", use.value, use);
  const Setting& strategy = of(settings, FlagId::strategy);
  add("strategy", strategy.value.empty() ? "the program's own" : strategy.value, strategy);
  const Setting& restarts = of(settings, FlagId::max_restarts);
  add("restarts", restarts.value, restarts);
  const Setting& endpoint = of(settings, FlagId::rdzv_endpoint);
  const Setting& address = of(settings, FlagId::master_addr);
  add("rendezvous", std::move(meeting), is_default(endpoint) ? address : endpoint);
  const Setting& logs = of(settings, FlagId::log_dir);
  add("logs", logs.value.empty() ? "a fresh folder in TMPDIR" : logs.value == "/dev/null" ? "none" : logs.value, logs);
}

std::string meeting_of(const std::vector<Setting>& settings, const char* otherwise) {
  if (const Setting& endpoint = of(settings, FlagId::rdzv_endpoint); !endpoint.value.empty()) return endpoint.value;
  const Setting& address = of(settings, FlagId::master_addr);
  return is_default(address) || address.value == "real" ? otherwise : address.value;
}

// As an agent would have it that has been told no number.
std::optional<int> workers_typed(const Options& options) {
  if (is_sized_by_nodes(options)) return std::nullopt;
  const auto number = parse_python_int(options.text(FlagId::nproc), 1, kMostRank);
  return number ? std::optional(*number) : std::nullopt;
}

// Nodes with numbers have their ranks in a row.
void give_ranks(JobLayout& layout) {
  int next = 0;
  for (LayoutNode& node : layout.nodes) {
    if (!node.workers) return;
    node.first_rank = next;
    next += *node.workers;
  }
}

std::optional<double> memory_of(const Host& host) {
  const auto text = host.read_text("/proc/meminfo");
  if (!text) return std::nullopt;
  constexpr std::string_view kName = "MemTotal:";
  const auto at = text->find(kName);
  if (at == std::string::npos) return std::nullopt;
  const auto first = text->find_first_not_of(' ', at + kName.size());
  std::uint64_t kib = 0;
  if (first == std::string::npos ||
      std::from_chars(text->data() + first, text->data() + text->size(), kib).ec != std::errc())
    return std::nullopt;
  return static_cast<double>(kib << 10);
}

std::vector<std::string> own_gpus(const Plan& plan, std::size_t gpus, std::size_t workers) {
  const launcher::JobSpec& spec = plan.spec;
  if (!spec.own_devices.by_local_rank.empty()) return spec.own_devices.by_local_rank;
  std::vector<std::string> own;
  for (std::size_t rank = 0; workers <= gpus && rank < workers; ++rank) own.push_back(std::to_string(rank));
  return own;
}

Setting engine_here(const Plan& plan, const Host& host) {
  const Setting& typed = of(plan.settings, FlagId::engine);
  if (host.mpi) return {"", "mpi", host.mpi->process.origin};
  if (of(plan.settings, FlagId::rdzv_endpoint).origin == kSlurmNodes) return {"", "slurm", "SLURM_STEP_ID"};
  return {"", typed.value == "auto" ? "local" : typed.value, typed.origin};
}

std::string meeting_here(const launcher::NodesSpec& nodes, const std::vector<Setting>& settings) {
  if (nodes.several()) return meeting_of(settings, "not said");
  return nodes.port == 0 ? "a free port of this node" : address_text(nodes.address, std::to_string(nodes.port));
}

std::string amount(const std::optional<double>& number) { return number ? fmt::format("{:g}", *number) : "?"; }

std::string memory_text(const std::optional<double>& bytes) {
  constexpr double kGiB = 1 << 30;
  return bytes ? fmt::format("{:.1f} GiB", *bytes / kGiB) : "?";
}

std::string ranks_text(const LayoutNode& node) {
  if (!node.first_rank || !node.workers) return "agreed when nodes meet";
  const int last = *node.first_rank + *node.workers - 1;
  return *node.workers == 1 ? std::to_string(last) : fmt::format("{}-{}", *node.first_rank, last);
}

// "2: 0 1", or the number alone.
std::string with_own(const std::optional<double>& number, const std::vector<std::string>& own) {
  std::string text = amount(number);
  for (const std::string& each : own) text += (&each == &own.front() ? ": " : " ") + each;
  return text;
}

using Row = std::vector<std::string>;

// Columns as wide as they need; none after the last.
std::string table(const std::vector<Row>& rows) {
  std::string out;
  for (const Row& row : rows) {
    std::string line = " ";
    for (std::size_t column = 0; column < row.size(); ++column) {
      std::size_t width = 0;
      for (const Row& each : rows)
        if (column < each.size()) width = std::max(width, each[column].size());
      line += fmt::format(" {:<{}} ", row[column], width);
    }
    while (line.ends_with(' ')) line.pop_back();
    out += line + "\n";
  }
  return out;
}

std::string headline(const JobLayout& layout) {
  int workers = 0;
  bool known = !layout.nodes.empty() && layout.most == static_cast<int>(layout.nodes.size());
  for (const LayoutNode& node : layout.nodes) {
    known = known && node.workers;
    workers += node.workers.value_or(0);
  }
  std::string nodes = counted(layout.least, "node");
  if (layout.most == 0)
    nodes = "the nodes of an allocation";
  else if (layout.most > layout.least)
    nodes = fmt::format("{} to {} nodes", layout.least, layout.most);
  const std::string up_to = layout.most > layout.least ? "up to " : "";
  return fmt::format("{} on {}; nothing was started\n",
                     known ? up_to + counted(workers, "worker") : "workers, which the nodes count,", nodes);
}

LayoutJson json_or_null(const std::optional<int>& value) { return value ? LayoutJson(*value) : LayoutJson(); }

// Whole numbers as such.
LayoutJson json_or_null(const std::optional<double>& value) {
  if (!value) return {};
  const auto whole = static_cast<std::int64_t>(*value);
  return static_cast<double>(whole) == *value ? LayoutJson(whole) : LayoutJson(*value);
}

}  // namespace

JobLayout layout_here(const Plan& plan, const Host& host) {
  const launcher::JobSpec& spec = plan.spec;
  JobLayout layout;
  layout.least = spec.nodes.min;
  layout.most = spec.nodes.max;
  const int workers = spec.nproc_per_node * std::max(1, spec.replicas.here);
  LayoutNode node;
  node.name = spec.nodes.node_rank > 0 ? fmt::format("this node, number {}", spec.nodes.node_rank) : "this node";
  node.workers = workers;
  const bool hidden = of(plan.settings, FlagId::use_gpu).value == "no";
  const std::size_t gpus = hidden ? 0 : visible_gpus(host.gpus(), host.env).size();
  node.gpus = static_cast<double>(gpus);
  node.cpus = host.cpus;
  node.memory = memory_of(host);
  node.own_gpus = own_gpus(plan, gpus, static_cast<std::size_t>(workers));
  for (const launcher::CpuSet& cpus : spec.cpus) node.own_cpus.push_back(launcher::cpu_ranges(cpus));
  layout.nodes.push_back(std::move(node));
  if (!spec.nodes.several()) give_ranks(layout);
  add_facts(plan.settings, engine_here(plan, host), meeting_here(spec.nodes, plan.settings), layout);
  layout.facts.push_back({"program", plan.executed_file, "default"});
  return layout;
}

JobLayout layout_on_hosts(const launcher::PlacementRequest& request, const Options& options) {
  const auto settings = settings_of(options);
  JobLayout layout;
  layout.least = request.least;
  layout.most = static_cast<int>(request.hosts.size());
  for (const launcher::PlacedHost& host : request.hosts) {
    LayoutNode node;
    node.name = host.name;
    const bool slots_count = host.workers() > 0 && !options.given(FlagId::nproc);
    node.workers = slots_count ? std::optional(host.workers()) : workers_typed(options);
    for (const int slot : host.chosen) node.own_gpus.push_back(std::to_string(slot));
    layout.nodes.push_back(std::move(node));
  }
  if (request.numbered) give_ranks(layout);
  const FlagId list = options.given(FlagId::hosts) ? FlagId::hosts : FlagId::hostfile;
  add_facts(settings, {"", "ssh", of(settings, list).origin}, meeting_of(settings, "the first host"), layout,
            std::any_of(request.hosts.begin(), request.hosts.end(),
                        [](const launcher::PlacedHost& host) { return host.workers() > 0; }));
  return layout;
}

JobLayout layout_on_cluster(const ClusterRequest& request, const launcher::ShimPlaced& placed, const Options& options) {
  const auto settings = settings_of(options);
  JobLayout layout;
  layout.least = request.placement.elastic ? request.nodes.least : static_cast<int>(placed.nodes.size());
  layout.most = request.placement.elastic ? request.nodes.most : layout.least;
  for (const launcher::ShimNode& each : placed.nodes) {
    LayoutNode node;
    node.name = each.host;
    node.workers = each.workers;
    const auto taken = [&](const char* name) {
      const auto found = each.takes.find(name);
      return found == each.takes.end() ? std::nullopt : std::optional(found->second);
    };
    node.gpus = taken("GPU").value_or(0);
    node.cpus = taken("CPU").value_or(0);
    node.memory = taken("memory");
    layout.nodes.push_back(std::move(node));
  }
  if (request.placement.numbered) give_ranks(layout);
  const Setting& typed = of(settings, FlagId::engine);
  const bool by_address = typed.value == "auto";
  add_facts(settings, {"", std::string(request.engine->name), by_address ? request.engine->variable : typed.origin},
            meeting_of(settings, request.placement.grows ? "this host" : "the first node"), layout);
  return layout;
}

JobLayout layout_of_step(const Options& options, const Host& host, std::optional<int> part) {
  const auto settings = settings_of(options);
  JobLayout layout;
  const std::string own = host.variable(kNodesOfAllocation);
  const auto range = parse_nnodes(options.given(FlagId::nnodes) ? options.text(FlagId::nnodes) : own);
  layout.least = layout.most = 0;
  if (range) {
    layout.least = range->min;
    layout.most = range->max;
  }
  const auto names = launcher::expand_hostlist(host.variable("SLURM_JOB_NODELIST"));
  const bool all = names && names->size() == static_cast<std::size_t>(layout.most);
  for (int i = 0; i < layout.most; ++i) {
    LayoutNode node;
    node.name = all ? (*names)[static_cast<std::size_t>(i)] : fmt::format("node {}", i);
    node.workers = part ? part : workers_typed(options);
    layout.nodes.push_back(std::move(node));
  }
  if (layout.least == layout.most) give_ranks(layout);
  add_facts(settings, {"", "slurm", of(settings, FlagId::engine).origin}, meeting_of(settings, "the first node"),
            layout);
  return layout;
}

std::string layout_text(const JobLayout& layout) {
  std::vector<Row> nodes = {{"node", "workers", "ranks", "GPUs", "CPUs", "memory"}}, facts;
  for (const LayoutNode& node : layout.nodes)
    nodes.push_back({node.name, node.workers ? std::to_string(*node.workers) : "?", ranks_text(node),
                     with_own(node.gpus, node.own_gpus), with_own(node.cpus, node.own_cpus), memory_text(node.memory)});
  for (const Setting& fact : layout.facts)
    facts.push_back({fact.flag, fact.value, is_default(fact) ? "" : fact.origin});
  return headline(layout) + "\n" + (layout.nodes.empty() ? "" : table(nodes) + "\n") + table(facts);
}

std::string layout_json(const JobLayout& layout) {
  LayoutJson nodes = LayoutJson::array(), facts = LayoutJson::object();
  for (const LayoutNode& node : layout.nodes)
    nodes.push_back({{"name", node.name},
                     {"workers", json_or_null(node.workers)},
                     {"first_rank", json_or_null(node.first_rank)},
                     {"gpus", json_or_null(node.gpus)},
                     {"cpus", json_or_null(node.cpus)},
                     {"memory", json_or_null(node.memory)},
                     {"own_gpus", node.own_gpus},
                     {"own_cpus", node.own_cpus}});
  for (const Setting& fact : layout.facts) facts[fact.flag] = {{"value", fact.value}, {"origin", fact.origin}};
  const LayoutJson out = {
      {"nodes", {{"least", layout.least}, {"most", layout.most}}}, {"layout", nodes}, {"settings", facts}};
  return out.dump(2, ' ', false, LayoutJson::error_handler_t::replace) + "\n";
}

}  // namespace dtrain::cli
