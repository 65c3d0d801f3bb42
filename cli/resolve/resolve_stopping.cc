// How the workers are stopped and held together.
// Tested by test/unit/cli/resolve/resolve_test.cc.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "cli/base/parse_value.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/options/take_value.h"
#include "cli/resolve/resolve_parts.h"

namespace dtrain::cli {
namespace {

Result<void> times(const Given& given, Plan& plan) {
  if (auto done = take_seconds(given.options, FlagId::shutdown_timeout, plan.spec.shutdown_timeout); !done) return done;
  // SLURM may signal every process of a step by itself, one after the other (proctrack/linuxproc). Of several nodes the
  // others would not hear in time which one failed first, and take for a cause what follows from it.
  if (!given.host.variable("SLURM_TASK_PID").empty() && !plan.spec.nodes.several())
    plan.spec.failure_settles = std::chrono::milliseconds(200);
  return take_seconds(given.options, FlagId::failure_grace, plan.spec.failure_grace);
}

// torchrun warns of names that it does not know, and goes on.
std::string known_signals(const Given& given, Plan& plan) {
  const std::string& text = given.options.text(FlagId::signals_to_handle);
  auto unknown = unknown_signals(text);
  if (!given.raw.as_torchrun || unknown.empty()) return text;
  std::string known, names;
  for (const std::string& part : split(text, ','))
    if (unknown_signals(part).empty()) known += (known.empty() ? "" : ",") + part;
  for (const std::string& name : unknown) names += (names.empty() ? "" : ", ") + printable(name);
  plan.notes.push_back(
      fmt::format("{}: no such signal: {} (ignored)", given.options[FlagId::signals_to_handle].where, names));
  return known;
}

Result<void> signals(const Given& given, Plan& plan) {
  auto stop = parse_signals(known_signals(given, plan));
  if (!stop) return given.options.blame(FlagId::signals_to_handle, stop.error());
  auto passed = parse_signals(given.options.text(FlagId::pass_signals));
  if (!passed) return given.options.blame(FlagId::pass_signals, passed.error());
  for (int signal : *stop) {
    auto both = std::find(passed->begin(), passed->end(), signal);
    if (both == passed->end()) continue;
    if (given.options.given(FlagId::pass_signals))
      return given.options.blame(FlagId::pass_signals,
                                 usage_error(fmt::format("signal {} is in --signals-to-handle as well", signal)));
    passed->erase(both);
  }
  plan.spec.stop_signals = *stop;
  plan.spec.passed_signals = *passed;
  return {};
}

Result<void> containment(const Given& given, Plan& plan) {
  using launcher::Containment;
  return take_choice(given.options, FlagId::contain, plan.spec.containment,
                     {{"auto", Containment::automatic},
                      {"cgroup", Containment::cgroup},
                      {"subreaper", Containment::subreaper},
                      {"pidns", Containment::pidns}});
}

// SLURM itself ends the job a moment after its end: what is left by then had its time.
Result<void> requeue(const Given& given, Plan& plan) {
  if (!given.options.given(FlagId::requeue)) return {};
  std::chrono::milliseconds ahead{};
  if (auto done = take_seconds(given.options, FlagId::requeue, ahead); !done) return done;
  const std::string job = given.host.variable("SLURM_JOB_ID");
  if (job.empty() || job.find_first_not_of("0123456789") != job.npos)
    return given.options.blame(FlagId::requeue, usage_error("there is no job of SLURM's here (SLURM_JOB_ID)"));
  const auto says = given.host.scontrol({"show", "job", job, "--oneliner"}, std::chrono::seconds(30));
  if (!says)
    return given.options.blame(
        FlagId::requeue, usage_error(fmt::format("SLURM does not tell of job {}: {}", job, says.error().message)));
  auto found = plan_requeue(job, *says, ahead, plan.spec.shutdown_timeout + std::chrono::seconds(5));
  if (!found) return given.options.blame(FlagId::requeue, found.error());
  const std::string node = given.host.variable("SLURM_NODEID");
  found->leads = node.empty() || node == "0";
  found->agents_write = plan.spec.state_files.has_value();
  found->together = plan.spec.nodes.several();
  if (found->agents_write) found->last = found->ask;
  plan.requeue = std::move(*found);
  return {};
}

}  // namespace

Result<void> resolve_stopping(const Given& given, Plan& plan) {
  for (auto step : {times, signals, containment, requeue})
    if (auto done = step(given, plan); !done) return done;
  return {};
}

}  // namespace dtrain::cli
