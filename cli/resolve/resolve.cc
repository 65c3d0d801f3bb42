// Runs the parts and lists the settings.
#include "cli/resolve/resolve.h"

#include <fmt/format.h>

#include "cli/engines/cloud.h"
#include "cli/engines/mpi.h"
#include "cli/engines/placed.h"
#include "cli/engines/slurm.h"
#include "cli/options/take_value.h"
#include "cli/resolve/backend.h"
#include "cli/resolve/resolve_parts.h"
#include "cli/resolve/torchrun.h"

namespace dtrain::cli {
namespace {

// Flags that ask for a text instead of a job; and --backend, which is --engine or --config by now.
bool has_no_setting(FlagId id) {
  return id == FlagId::backend || id == FlagId::help || id == FlagId::version || id == FlagId::print_completion ||
         id == FlagId::print_config;
}

Result<Plan::PrintConfig> print_config(const Options& options) {
  if (options.text(FlagId::print_config) == "json") return Plan::PrintConfig::json;
  if (options.text(FlagId::print_config) == "all") return Plan::PrintConfig::all;
  auto on = options.on(FlagId::print_config);
  if (!on) return on.error();
  return *on ? Plan::PrintConfig::text : Plan::PrintConfig::no;
}

}  // namespace

std::vector<Setting> settings_of(const Options& options) {
  std::vector<Setting> out;
  for (const Flag& row : flags()) {
    if (has_no_setting(row.id)) continue;
    if (row.compat != Compat::none && !options.given(row.id)) continue;
    const RawValue& value = options[row.id];
    const std::string origin = value.origin == Origin::flag       ? "flag"
                               : value.origin == Origin::fallback ? "default"
                                                                  : value.where;
    out.push_back({spelled(row), value.text, origin});
  }
  return out;
}

Result<Plan> resolve(const RawOptions& raw, const Host& host) {
  Options options(raw, host);
  take_from_engine(host, options);
  if (auto done = take_from_mpi(host, options); !done) return done.error();
  const bool shows = options.given(FlagId::print_config);  // and judges nothing, also on a login host of SLURM
  if (auto done = take_from_slurm(raw, host, options); !done && !shows) return done.error();
  if (auto done = take_from_cloud(raw, host, options); !done) return done.error();
  if (auto done = take_num_proc(host, options); !done) return done.error();
  choose_backend(raw, options);
  const Given given{raw, host, options};
  Plan plan;
  auto config = print_config(options);
  if (!config) return config.error();
  plan.print_config = *config;
  if (plan.print_config != Plan::PrintConfig::no) {
    plan.settings = settings_of(options);
    return plan;
  }
  auto notes = judge_torchrun_flags(raw, options);
  if (!notes) return notes.error();
  plan.notes = *notes;
  for (std::string& note : judge_torchrun_variables(host)) plan.notes.push_back(std::move(note));
  if (options[FlagId::resources].origin == Origin::file && !host.place)
    plan.notes.push_back(fmt::format("no effect: {} is for --engine ray or spark", options[FlagId::resources].where));
  for (auto part : {resolve_nodes, resolve_groups, resolve_secret, resolve_workers, resolve_stopping, resolve_output,
                    resolve_dataset, resolve_program, resolve_attach})
    if (auto done = part(given, plan); !done) return done.error();
  if (auto done = take_switch(options, FlagId::dry_run, plan.dry_run); !done) return done.error();
  plan.settings = settings_of(options);
  return plan;
}

}  // namespace dtrain::cli
