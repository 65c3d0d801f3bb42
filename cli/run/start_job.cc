#include "cli/run/start_job.h"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <utility>

#include "cli/base/fail.h"
#include "cli/base/print.h"
#include "cli/data/credentials_file.h"
#include "cli/program/build_lock_search.h"
#include "cli/run/await_host.h"
#include "launcher/agent/run_job.h"
#include "launcher/replicas/run_replicas.h"

namespace dtrain::cli {

namespace {

// SLURM ends this process with the job, perhaps before scontrol has.
void give_back(const Host& host, const std::string& job) {
  say(fmt::format("job {} goes back into SLURM's queue", job));
  const auto done = host.scontrol({"requeue", job}, std::chrono::seconds(30));
  if (!done) say(fmt::format("job {} stays out of the queue: scontrol requeue: {}", job, done.error().message));
}

}  // namespace

int start_job(const RawOptions& raw, const Host& host, Plan plan) {
  const int ends_with = plan.spec.ends_with, orders = plan.spec.orders;
  for (const auto since = std::chrono::steady_clock::now(); !plan.awaited_host.empty();) {
    if (const auto code = await_host(plan, since)) return *code;
    auto again = resolve(raw, host);
    if (!again) return fail(again.error());
    plan = std::move(*again);
    plan.spec.orders = orders;
  }
  std::signal(SIGPIPE, SIG_IGN);  // a reader of ours that leaves must not take the job with it
  for (const std::string& warning : plan.warnings) say(warning);
  if (!plan.spec.quiet) {
    for (const std::string& note : plan.notes) say(note);
    for (const BuildLock& lock : left_build_locks(host)) say(lock_found(lock) + ": " + lock_cure(lock));
  }
  if (plan.spec.verbose)
    for (const std::string& detail : plan.details) say(detail);
  plan.spec.ends_with = ends_with;
  plan.spec.orders = orders;
  const auto credentials = make_credentials_file(host);
  if (!credentials) return fail(credentials.error());
  if (host.mpi) plan.spec.started_from = host.mpi->process.listens_at;
  const MonoTime began = SteadyClock::now();
  if (plan.requeue) plan.spec.planned_signals = planned_signals(*plan.requeue, began);
  if (plan.requeue && plan.spec.state_files) {
    plan.spec.state_files->asked = began + asked(*plan.requeue);
    plan.spec.state_files->ends = began + plan.requeue->end;
  }
  const int code = plan.spec.replicas.groups > 0 ? launcher::run_replicas(plan.spec) : launcher::run_job(plan.spec);
  if (plan.requeue && plan.requeue->leads && goes_back(*plan.requeue, code, SteadyClock::now() - began))
    give_back(host, plan.requeue->job);
  return code;
}

}  // namespace dtrain::cli
