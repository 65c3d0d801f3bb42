// `dtrain doctor`: what would start the agents of a `dtrain run` without flags, and what says so.
#include <fmt/format.h>

#include "cli/doctor/doctor.h"
#include "cli/engines/cluster.h"
#include "cli/engines/engine.h"
#include "cli/engines/hosts.h"
#include "cli/engines/mpi.h"
#include "launcher/engines/cloud_plan.h"
#include "launcher/engines/slurm_plan.h"
#include "rendezvous/base/printable.h"

namespace dtrain::cli {
namespace {

using Level = Finding::Level;

Findings engine_is(const std::string& text) { return {{Level::ok, "engine", text, ""}}; }

Findings engine_fails(const Error& error) { return {{Level::fail, "engine", error.message, ""}}; }

}  // namespace

Findings judge_engine(const Host& host) {
  RawOptions raw;
  raw.command = {"program"};
  const Options options(raw, host);
  const auto hosts = hosts_that_count(raw, options, host);
  if (!hosts) return engine_fails(hosts.error());
  if (*hosts) {
    const FlagId list = options.given(FlagId::hosts) ? FlagId::hosts : FlagId::hostfile;
    return engine_is(fmt::format("ssh, to {} host{}: {} is set", (*hosts)->hosts.size(),
                                 (*hosts)->hosts.size() == 1 ? "" : "s", options[list].where));
  }
  const auto cluster = cluster_that_counts(raw, options, host);
  if (!cluster) return engine_fails(cluster.error());
  if (*cluster) return engine_is(fmt::format("{}: DTRAIN_ENGINE is set", (*cluster)->engine->title));
  const auto process = mpi_that_counts(raw, host);
  if (!process) return engine_fails(process.error());
  if (*process) return engine_is(fmt::format("{}: {} is set", (*process)->launcher, (*process)->origin));
  const auto by_slurm = may_speak("slurm", raw, host, options);
  if (!by_slurm) return engine_fails(by_slurm.error());
  const auto step = launcher::slurm_step(host.env);
  if (!step) return engine_fails(step.error());
  if (*by_slurm && *step) return engine_is(fmt::format("SLURM, step {}: SLURM_STEP_ID is set", printable((*step)->id)));
  if (is_named("slurm", options))
    return {{Level::warn, "engine", "SLURM, and this is no step of it: DTRAIN_ENGINE is set",
             "start dtrain by srun there, or unset DTRAIN_ENGINE"}};
  const auto by_cloud = may_speak("cloud", raw, host, options);
  if (!by_cloud) return engine_fails(by_cloud.error());
  const auto cloud = launcher::cloud_place(host.env);
  if (!cloud) return engine_fails(cloud.error());
  if (*by_cloud && *cloud) return engine_is(fmt::format("{}: {} is set", (*cloud)->runner, (*cloud)->origin));
  if (user_decides(options)) return engine_is("none: variables say where the nodes meet");
  if (const ClusterEngine* live = engine_of_address(host))
    return engine_is(fmt::format("local; with --nnodes N, {}'s cluster: {} is set ({})", live->title, live->variable,
                                 printable(host.variable(live->variable))));
  if (const auto pod = launcher::indexed_pod(host.env, host.full_name()))
    return engine_is(fmt::format("local; with --nnodes N, pod {} of an indexed Job of Kubernetes: {} is set",
                                 pod->index, launcher::IndexedPod::kOrigin));
  return engine_is("local: no scheduler, no launcher and no list of hosts says otherwise");
}

Findings check_engine() { return judge_engine(this_host()); }

}  // namespace dtrain::cli
