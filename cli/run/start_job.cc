#include "cli/run/start_job.h"

#include <chrono>
#include <csignal>
#include <utility>

#include "cli/base/fail.h"
#include "cli/base/print.h"
#include "cli/program/build_lock_search.h"
#include "cli/run/await_host.h"
#include "launcher/agent/run_job.h"

namespace dtrain::cli {

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
  return launcher::run_job(plan.spec);
}

}  // namespace dtrain::cli
