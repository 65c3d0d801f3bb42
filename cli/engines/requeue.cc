#include "cli/engines/requeue.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <initializer_list>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/machine/slurm_address.h"

namespace dtrain::cli {
Result<std::chrono::seconds> parse_slurm_duration(std::string_view text) {
  constexpr std::int64_t kMostDays = 36500;
  const Error wrong = usage_error(fmt::format("'{}' is no duration of SLURM's", printable(text.substr(0, 40))));
  std::int64_t days = 0, seconds = 0;
  const auto number = [](std::string_view digits, std::int64_t most, std::int64_t& value) {
    const auto [rest, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return status == std::errc() && rest == digits.data() + digits.size() && value >= 0 && value <= most;
  };
  std::string_view clock = text;
  if (const auto dash = text.find('-'); dash != text.npos) {
    if (!number(text.substr(0, dash), kMostDays, days)) return wrong;
    clock = text.substr(dash + 1);
  }
  const std::vector<std::string> parts = split(std::string(clock), ':');
  if (parts.size() < 2 || parts.size() > 3) return wrong;
  for (const std::string& part : parts) {
    std::int64_t value = 0;
    if (!number(part, kMostDays * 24, value)) return wrong;
    seconds = seconds * 60 + value;
  }
  return std::chrono::seconds(days * 86400 + seconds);
}

Result<RequeuePlan> plan_requeue(const std::string& job, std::string_view scontrol_says, Duration ahead,
                                 Duration ending) {
  if (scontrol_value(scontrol_says, "BatchFlag") != "1")
    return usage_error(fmt::format("job {} is no batch job, and SLURM requeues no others: submit it with sbatch", job));
  if (scontrol_value(scontrol_says, "Requeue") != "1")
    return usage_error(fmt::format("SLURM does not requeue job {}: submit it with sbatch --requeue", job));
  const std::string limit = scontrol_value(scontrol_says, "TimeLimit");
  const auto all = parse_slurm_duration(limit), gone = parse_slurm_duration(scontrol_value(scontrol_says, "RunTime"));
  if (!all || !gone)
    return usage_error(fmt::format("job {} has no time limit ({}): submit it with sbatch --time", job,
                                   limit.empty() ? "scontrol names none" : printable(limit.substr(0, 40))));
  const Duration left = *all - *gone;
  // It would be asked before it has done anything, and go round in the queue for ever.
  if (left <= ahead)
    return usage_error(fmt::format("job {} has {:.0f} s left, and is to save {:.0f} s before its end", job,
                                   in_seconds(left), in_seconds(ahead)));
  RequeuePlan plan;
  plan.job = job;
  plan.ask = left - ahead;
  plan.last = std::max(plan.ask, left - ending);
  plan.end = left;
  return plan;
}

std::vector<launcher::PlannedSignal> planned_signals(const RequeuePlan& plan, MonoTime began) {
  if (!plan.agents_write) return {{began + plan.ask, SIGUSR1}, {began + plan.last, SIGTERM}};
  if (plan.together && !plan.leads) return {};
  return {{began + plan.ask, SIGTERM}};
}

Duration asked(const RequeuePlan& plan) {
  const bool asks_itself = plan.leads || !plan.together;
  return plan.ask - (asks_itself ? Duration{} : std::chrono::seconds(1));
}

launcher::NextRun next_run(std::string_view scontrol_says, int restarts) {
  using launcher::NextRun;
  const std::string state = scontrol_value(scontrol_says, "JobState"), runs = scontrol_value(scontrol_says, "Restarts");
  const std::string reason = scontrol_value(scontrol_says, "Reason");
  int number = 0;
  const bool known = std::from_chars(runs.data(), runs.data() + runs.size(), number).ec == std::errc();
  const bool requeued =
      scontrol_value(scontrol_says, "BatchFlag") == "1" && scontrol_value(scontrol_says, "Requeue") == "1";
  // While it runs it may be about to be preempted. Else it has been given back already, or it is over.
  const bool runs_or_waits = state == "RUNNING" || state == "SUSPENDED" || (known && number > restarts);
  if (requeued && runs_or_waits) return NextRun::may_come;
  // While processes of it are left, SLURM names the reason of each end but this one.
  const bool cancelled = state.starts_with("CANCELLED") || (state == "COMPLETING" && reason == "None");
  return cancelled ? NextRun::cancelled : NextRun::none;
}

bool goes_back(const RequeuePlan& plan, int code, Duration ran) {
  const auto stops = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
  const bool stopped = std::any_of(stops.begin(), stops.end(), [code](int signal) { return code == 128 + signal; });
  return code != 0 && ran >= plan.ask && (!stopped || ran >= plan.last);
}

}  // namespace dtrain::cli
