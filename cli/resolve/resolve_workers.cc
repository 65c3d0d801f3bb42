// Name, number and threads of the workers.
// Tested by test/unit/cli/resolve/resolve_test.cc.
#include <fmt/format.h>

#include <algorithm>

#include "cli/base/parse_value.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/engines/engine.h"
#include "cli/options/take_value.h"
#include "cli/resolve/resolve_parts.h"
#include "rendezvous/base/counted.h"

namespace dtrain::cli {
namespace {

constexpr int kMostRestarts = 1000000000;

Result<void> job(const Given& given, Plan& plan) {
  constexpr std::size_t kLongest = 128;  // it becomes part of a file name
  const std::string& name = given.options.text(FlagId::run_id);
  if (name.size() > kLongest || name.starts_with('.') || has_control_bytes(name))
    return given.options.blame(
        FlagId::run_id,
        usage_error(fmt::format(
            "a job's name has at most {} characters, no control characters, and does not begin with a dot", kLongest)));
  // Nodes that name no job must mean the same one: torchrun's "none".
  const bool several = plan.spec.nodes.several() || plan.spec.replicas.here < plan.spec.replicas.groups;
  const std::string unnamed = several ? "none" : "job-" + given.host.fresh_id;
  plan.spec.run_id = name.empty() ? unnamed : name;
  plan.spec.role = given.options.text(FlagId::role);
  return {};
}

Result<void> workers(const Given& given, Plan& plan) {
  auto count = count_workers(given, kMostWorkersOfNode, plan);
  if (!count) return count.error();
  plan.spec.nproc_per_node = *count;
  // A number in a config is no sign that the program is Horovod's.
  plan.spec.horovod = given.options.given(FlagId::num_proc) && given.options[FlagId::num_proc].origin != Origin::file;
  if (auto done = resolve_own_device(given, plan); !done) return done;
  return take_restarts(given.options, plan);
}

Result<void> survivors(const Given& given, Plan& plan) {
  int& survivors = plan.spec.survivors;
  if (auto done = take_number(given.options, FlagId::survivors, kMostWorkersOfNode, survivors); !done) return done;
  if (survivors == 0) return {};
  // All nodes of a job must have the flag. One with too few workers ends the round with its first failure.
  if (survivors >= plan.spec.nproc_per_node && !plan.spec.nodes.several())
    return given.options.blame(
        FlagId::survivors, usage_error(fmt::format(
                               "of {} on this node no worker could fail and leave {}; give at most {}, or more workers "
                               "(--nproc)",
                               counted(plan.spec.nproc_per_node, "worker"), survivors, plan.spec.nproc_per_node - 1)));
  if (plan.spec.nodes.several() && !plan.spec.nodes.across_hosts)
    return given.options.blame(
        FlagId::survivors, usage_error("several nodes on one host (an endpoint on loopback) cannot have it; start one "
                                       "node there, with more workers"));
  if (plan.spec.nodes.real_master)
    return given.options.blame(FlagId::survivors,
                               usage_error("the workers hear of a failure from their own agent's store, and with "
                                           "--master-addr real they have no such store; leave that out"));
  return {};
}

// Left alone, every worker would start one thread for each core, and all of them would get in each other's way.
Result<void> threads(const Given& given, Plan& plan) {
  int workers = workers_of_node(plan.spec);
  if (workers == 1 || given.host.env.contains("OMP_NUM_THREADS")) return {};
  int each = given.raw.as_torchrun ? 1 : std::max(1, given.host.cpus / workers);
  plan.spec.extra_env.emplace_back("OMP_NUM_THREADS", std::to_string(each));
  std::vector<std::string>& lines = given.raw.as_torchrun ? plan.notes : plan.details;  // torchrun says it
  lines.push_back(fmt::format("OMP_NUM_THREADS={} for each of {} workers ({} cores); set it to choose", each, workers,
                              given.host.cpus));
  return {};
}

// Set by the platform and not by the user: what is wrong with it is told, and ends nothing.
Result<void> status_server(const Given& given, Plan& plan) {
  const std::string url = given.host.variable("KUBEFLOW_TRAINER_SERVER_URL");
  // A job within a worker of another one has no word there.
  const bool within =
      !given.host.variable("DTRAIN_JOB_ID").empty() || !given.host.variable("TORCHELASTIC_RUN_ID").empty();
  if (!url.empty() && !within && plan.spec.replicas.groups > 0)
    plan.notes.emplace_back("Kubeflow Trainer gets no progress: with --replica-groups there is no one rank 0");
  else if (!url.empty() && !within)
    plan.spec.status_server = {url, given.host.variable("KUBEFLOW_TRAINER_SERVER_CA_CERT"),
                               given.host.variable("KUBEFLOW_TRAINER_SERVER_TOKEN")};
  return {};
}

}  // namespace

Result<void> take_restarts(const Options& options, Plan& plan) {
  return take_number(options, FlagId::max_restarts, kMostRestarts, plan.spec.max_restarts);
}

Result<void> take_num_proc(const Host& host, Options& options) {
  if (!options.given(FlagId::num_proc)) return {};
  if (host.place && options.given(FlagId::nproc)) return {};  // this host's part, by its slots
  // Before the processes of MPI have met, nobody knows how many nodes there are.
  if (host.mpi && !host.mpi->meeting && !options.given(FlagId::nnodes)) return {};
  // MPI has placed each worker. Then there may be other numbers on other hosts.
  if (host.mpi && options[FlagId::nproc].where == host.mpi->process.origin) {
    if (is_sized_by_nodes(options) || options.text(FlagId::num_proc) == std::to_string(host.mpi->process.size))
      return {};
    return options.blame(FlagId::num_proc,
                         usage_error(fmt::format("{} has started {} processes, each for one worker; leave this out",
                                                 host.mpi->process.launcher, host.mpi->process.size)));
  }
  const auto part = part_of_num_proc(options);
  if (!part) return part.error();
  const auto own_device = options.on(FlagId::virtual_local_rank);
  if (!own_device) return own_device.error();
  const int workers = *part ? **part : workers_by_gpus(host, options.text(FlagId::use_gpu) != "no", *own_device);
  options.suggest(FlagId::nproc, std::to_string(workers), options[FlagId::num_proc].where);
  return {};
}

Result<void> resolve_workers(const Given& given, Plan& plan) {
  for (auto step : {job, workers, survivors, resolve_replicas, resolve_use_gpu, resolve_strategy, resolve_loader,
                    resolve_state, resolve_numa, threads, status_server})
    if (auto done = step(given, plan); !done) return done;
  return {};
}

}  // namespace dtrain::cli
