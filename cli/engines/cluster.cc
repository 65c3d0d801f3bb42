// Tested by test/unit/cli/engines/cluster_test.cc.
#include "cli/engines/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "cli/base/parse_value.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/engines/engine.h"
#include "cli/engines/hosts.h"
#include "cli/engines/sent_words.h"
#include "cli/nodes/nodes.h"
#include "cli/options/take_value.h"
#include "launcher/engines/cloud_plan.h"
#include "launcher/engines/mpi_plan.h"
#include "launcher/engines/slurm_plan.h"
#include "rendezvous/base/printable.h"

namespace dtrain::cli {
namespace {

constexpr std::array<ClusterEngine, 2> kEngines = {
    {{"ray", "Ray", "RAY_ADDRESS", "", true}, {"spark", "Spark", "MASTER", "spark://", false}}};
constexpr int kMostOfCluster = 65536;  // as a shim may name
// Agents that begin together are there at once.
constexpr const char* kLastCall = "last_call_timeout=2";
constexpr double kLeastAmount = 0.0001;  // of a resource of Ray's
constexpr std::array kDevices = {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                 "ROCR_VISIBLE_DEVICES"};

std::optional<double> quantity(std::string_view text) {
  const auto value = parse_python_float(text);
  return value && *value >= 0 ? std::optional(*value) : std::nullopt;
}

Result<std::map<std::string, double>> parse_resources(std::string_view text) {
  std::map<std::string, double> resources;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    const auto equals = word.find('=');
    const std::string name(word.substr(0, equals));
    const auto value = equals == std::string_view::npos ? std::nullopt : quantity(word.substr(equals + 1));
    if (name.empty() || !value)
      return usage_error(fmt::format("'{}' is no NAME=NUMBER, such as CPU=2", printable(word)));
    if (*value > 0 && *value < kLeastAmount)
      return usage_error(
          fmt::format("{}={} is too little: Ray counts in steps of {}", printable(name), *value, kLeastAmount));
    // Without libm, which dtrain does not need otherwise.
    if (name == "GPU" && (*value > kMostWorkersOfNode || *value != static_cast<double>(static_cast<int>(*value))))
      return usage_error(fmt::format("GPU={} is no whole number: a worker has its GPUs for itself", *value));
    if (!resources.emplace(name, *value).second) return usage_error(fmt::format("{} is there twice", printable(name)));
  }
  return resources;
}

Result<std::string> parse_workers(const std::string& text) {
  if (text == "auto" || text == "cpu" || text == "gpu") return text;
  const auto number = parse_python_int(text, 1, kMostWorkersOfNode);
  if (!number) return usage_error(number.error().message + ", or auto, cpu, gpu");
  return std::to_string(*number);
}

// The first setting of Spark's in its options that is a secret: NAME=VALUE, where the name ends as theirs do.
std::string secret_in(std::string_view options) {
  constexpr std::array kEnds = {"secret", "password", "token", "access.key", "access_key", "secret.key"};
  constexpr std::string_view kNameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  for (auto equals = options.find('='); equals != std::string_view::npos; equals = options.find('=', equals + 1)) {
    const std::string_view before = options.substr(0, equals);
    const auto name = before.substr(before.find_last_not_of(kNameBytes) + 1);
    const std::string small = lower(name);
    if (small.find(".secretkeyref.") != small.npos) continue;  // where Kubernetes has it
    if (std::any_of(kEnds.begin(), kEnds.end(), [&](const char* end) { return small.ends_with(end); }))
      return std::string(name);
  }
  return {};
}

Result<void> check_spark(const Options& options) {
  const std::string secret = secret_in(options.text(FlagId::spark));
  if (secret.empty()) return {};
  return usage_error(
      fmt::format("{}: {} would be seen in the list of processes: put it into spark-defaults.conf in the folder "
                  "SPARK_CONF_DIR, or a file for --properties-file, that only you can read",
                  options[FlagId::spark].where, secret));
}

// A scheduler or launcher that comes before clusters has started this process.
bool others_speak(const Host& host) {
  const auto step = launcher::slurm_step(host.env);
  const auto process = launcher::mpi_process(host.env);
  const auto place = launcher::cloud_place(host.env);
  return !step || *step || !process || *process || !place || *place;
}

// Null: none.
Result<const ClusterEngine*> engine_that_counts(const RawOptions& raw, const Host& host, const Options& options) {
  const ClusterEngine* const none = nullptr;
  for (const ClusterEngine& each : kEngines) {
    const auto speaks = may_speak(each.name, raw, host, options);
    if (!speaks) return speaks.error();
    if (*speaks && is_named(each.name, options)) return &each;
  }
  const auto speaks = may_speak("cluster", raw, host, options);
  if (!speaks) return speaks.error();
  return *speaks && options.given(FlagId::nnodes) && !others_speak(host) ? engine_of_address(host) : none;
}

Result<void> check_cluster(const Options& options, const ClusterEngine& engine) {
  const std::string flag = fmt::format("--engine {}", engine.name);
  if (options.text(FlagId::ha) != "0") return usage_error("--ha does not go together with " + flag);
  if (options.given(FlagId::attach))
    return usage_error(fmt::format("{} does not go together with {}", options[FlagId::attach].where, flag));
  if (options.insists_on(FlagId::spark) && engine.name != "spark")
    return usage_error(fmt::format("{} does not go together with {}", options[FlagId::spark].where, flag));
  if (engine.name == "spark")
    if (auto done = check_spark(options); !done) return done;
  return check_stdin(options, flag);
}

// A job that grows meets at the host of the command: without TLS there is no host but node 0.
Result<void> meet_at_command(const Options& options, const ClusterEngine& engine, launcher::PlacementRequest& request) {
  if (options.given(FlagId::master_port)) {
    request.port = options.text(FlagId::master_port);
    if (const auto port = parse_number(request.port, 1, 65535); !port)
      return options.blame(FlagId::master_port, port.error());
  }
  const auto insecure = options.on(FlagId::insecure);
  if (!insecure) return insecure.error();
  request.grows = engine.grows && request.elastic && !*insecure;
  if (!request.grows) return {};
  request.task.place.conf = kLastCall;
  // That port is said in the endpoint; by itself it would mean nodes with numbers.
  std::erase_if(request.task.words, [](const std::string& word) { return word.starts_with("--master-port="); });
  return {};
}

// --use-gpu where --resources-per-worker says nothing of GPUs. The agents see to the rest of it.
Result<void> take_use_gpu(const Options& options, const ClusterEngine& engine, std::map<std::string, double>& taken) {
  const std::string& use = options.text(FlagId::use_gpu);
  if (use != "yes" && use != "no") return {};
  const auto gpus = taken.find("GPU");
  if (gpus != taken.end()) {
    if ((gpus->second > 0) == (use == "yes")) return {};
    return usage_error(fmt::format("{} contradicts {}; remove one of the two", options[FlagId::use_gpu].where,
                                   options[FlagId::resources].where));
  }
  // What Spark's tasks take is in its own settings, unless they are counted here.
  if (engine.name == "spark" && options.given(FlagId::nproc) && !all_digits(options.text(FlagId::nproc))) return {};
  if (taken.empty() && engine.name == "ray") taken["CPU"] = 1;
  if (use == "yes") taken["GPU"] = 1;
  return {};
}

// Without --nnodes, the engine has the nodes for so many workers.
Result<void> take_num_proc(const Options& options, launcher::ShimRequest& nodes) {
  const auto part = part_of_num_proc(options);
  if (!options.given(FlagId::num_proc) || options.given(FlagId::nnodes) || options.given(FlagId::nproc)) {
    if (!part) return part.error();
    if (*part) nodes.workers = std::to_string(**part);
    return {};
  }
  nodes.all = options.text(FlagId::num_proc);
  const auto most = is_sized_by_nodes(options) ? Result<int>(kMostOfCluster) : parse_number(nodes.all, 1, kMostRank);
  if (!most) return part.error();
  nodes.least = 1;
  nodes.most = std::min(*most, kMostOfCluster);
  return {};
}

Result<void> check_without_cluster(const Options& options, const Host& host) {
  if (host.place) return {};
  if (options[FlagId::resources].origin == Origin::flag)
    return usage_error("--resources-per-worker is for --engine ray or spark: give that too");
  // A file for several engines: what is wrong in it is said here, too.
  if (auto fine = parse_resources(options.text(FlagId::resources)); !fine)
    return options.blame(FlagId::resources, fine.error());
  if (options.insists_on(FlagId::spark))
    return usage_error(fmt::format("{} is for --engine spark: give that too", options[FlagId::spark].where));
  return {};
}

}  // namespace

const ClusterEngine* engine_of_address(const Host& host) {
  const auto found = std::find_if(kEngines.begin(), kEngines.end(), [&](const ClusterEngine& each) {
    const std::string value = host.variable(each.variable);
    return !value.empty() && value.starts_with(each.begins);
  });
  return found == kEngines.end() ? nullptr : found;
}

Result<std::optional<ClusterRequest>> cluster_that_counts(const RawOptions& raw, const Options& options,
                                                          const Host& host) {
  const std::optional<ClusterRequest> none;
  const auto engine = engine_that_counts(raw, host, options);
  if (!engine) return engine.error();
  if (!*engine) {
    if (auto done = check_without_cluster(options, host); !done) return done.error();
    return none;
  }
  if (auto done = check_cluster(options, **engine); !done) return done.error();
  if (raw.command.empty() && !options.given(FlagId::print_config))
    return usage_error(fmt::format("no program to start: dtrain run --engine {} PROGRAM", (*engine)->name));
  ClusterRequest request;
  request.engine = *engine;
  NodeRange nodes;
  if (options.given(FlagId::nnodes)) {
    const auto range = parse_nnodes(options.text(FlagId::nnodes));
    if (!range) return options.blame(FlagId::nnodes, range.error());
    nodes = *range;
  }
  request.nodes.least = nodes.min;
  request.nodes.most = nodes.max;
  if (options.given(FlagId::nproc)) {
    auto workers = parse_workers(options.text(FlagId::nproc));
    if (!workers) return options.blame(FlagId::nproc, workers.error());
    request.nodes.workers = std::move(*workers);
  }
  if (auto done = take_num_proc(options, request.nodes); !done) return done.error();
  if (options.given(FlagId::resources)) {
    auto resources = parse_resources(options.text(FlagId::resources));
    if (!resources) return options.blame(FlagId::resources, resources.error());
    request.nodes.resources = std::move(*resources);
  }
  if (auto done = take_use_gpu(options, **engine, request.nodes.resources); !done) return done.error();
  request.nodes.options = options.text(FlagId::spark);
  request.nodes.program = host.own_file();
  request.placement.least = nodes.min;
  request.placement.elastic = nodes.min != nodes.max;
  request.placement.numbered = !request.placement.elastic;
  request.placement.apart = has_groups(options);
  request.placement.shares_hosts = true;
  request.placement.task = task_to_send(raw, options, host, std::string((*engine)->name));
  if (auto done = meet_at_command(options, **engine, request.placement); !done) return done.error();
  return std::optional(std::move(request));
}

std::map<std::string, std::string> environment_for_cluster(const Host& host, const std::string& token) {
  auto sent = environment_to_send(host, token);
  for (const char* name : kDevices) sent.erase(name);
  sent.erase(kEnginePython);
  // What a program of Ray's or Spark's that has started dtrain has for itself. "_SPARK_": the secrets of an executor.
  std::erase_if(sent, [](const auto& one) {
    return (one.first.starts_with("RAY_") && one.first != "RAY_ADDRESS") || one.first.starts_with("PYSPARK_GATEWAY_") ||
           one.first == "PYSPARK_SUBMIT_ARGS" || one.first.starts_with("_SPARK_");
  });
  return sent;
}

}  // namespace dtrain::cli
