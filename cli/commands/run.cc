#include "cli/commands/run.h"

#include <fmt/format.h>

#include <chrono>
#include <csignal>

#include "cli/base/fail.h"
#include "cli/base/print.h"
#include "cli/base/terminal.h"
#include "cli/base/version.h"
#include "cli/commands/await_host.h"
#include "cli/commands/dry_run.h"
#include "cli/commands/settings_text.h"
#include "cli/help/completion.h"
#include "cli/help/help.h"
#include "cli/machine/host.h"
#include "cli/resolve/resolve.h"
#include "launcher/agent/run_job.h"
#include "launcher/job/exit_codes.h"

namespace dtrain::cli {

int run_command(const std::vector<std::string>& words, CalledAs called) {
  auto raw = parse(words, called);
  if (!raw) return fail(raw.error());
  if (auto& asked = (*raw)[FlagId::help]) {
    if (called != CalledAs::dtrain) return print_help(torchrun_help(output_width(), called));
    return print_help((asked->text == "all" ? run_help : common_help)(output_width()));
  }
  if ((*raw)[FlagId::version]) return print(version_line());
  if (auto& shell = (*raw)[FlagId::print_completion]) return print(completion_script(shell->text));
  const Host host = this_host();
  auto plan = resolve(*raw, host);
  if (!plan) return fail(plan.error());
  if (plan->print_config == Plan::PrintConfig::json) return print(settings_json(plan->settings));
  if (plan->print_config == Plan::PrintConfig::all) return print(all_settings(plan->settings));
  if (plan->print_config == Plan::PrintConfig::text) return print(chosen_settings(plan->settings));
  if (plan->dry_run) {
    if (!plan->awaited_host.empty())
      say(fmt::format("there is no host {} yet; the job would wait for it", plan->awaited_host));
    return print(describe(*plan, host.env));
  }
  for (const auto since = std::chrono::steady_clock::now(); !plan->awaited_host.empty();) {
    if (!await_host(*plan, since)) return launcher::kExitTimeLimit;
    plan = resolve(*raw, host);
    if (!plan) return fail(plan.error());
  }
  std::signal(SIGPIPE, SIG_IGN);  // a reader of ours that leaves must not take the job with it
  for (const std::string& warning : plan->warnings) say(warning);
  if (!plan->spec.quiet)
    for (const std::string& note : plan->notes) say(note);
  if (plan->spec.verbose)
    for (const std::string& detail : plan->details) say(detail);
  return launcher::run_job(plan->spec);
}

}  // namespace dtrain::cli
