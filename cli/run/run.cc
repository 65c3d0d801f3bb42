#include "cli/run/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/base/fail.h"
#include "cli/base/print.h"
#include "cli/base/terminal.h"
#include "cli/base/version.h"
#include "cli/config/config_schema.h"
#include "cli/config/take_config.h"
#include "cli/data/data_commands.h"
#include "cli/engines/cluster.h"
#include "cli/engines/hosts.h"
#include "cli/engines/mpi.h"
#include "cli/engines/srun.h"
#include "cli/help/completion.h"
#include "cli/help/help.h"
#include "cli/machine/host.h"
#include "cli/machine/mpi_job.h"
#include "cli/resolve/resolve.h"
#include "cli/run/dry_run.h"
#include "cli/run/settings_text.h"
#include "cli/run/ship.h"
#include "cli/run/start_job.h"
#include "cli/run/submit.h"
#include "launcher/base/cpu_set.h"
#include "rendezvous/base/printable.h"

namespace dtrain::cli {

namespace {

// What an MPI launcher has to do with this process.
struct MpiPart {
  bool is_agent = true;  // false: another process of this host is
  UniqueFd launcher;     // a pidfd
};

// With the other processes of an MPI job, if this is one.
Result<MpiPart> meet_the_others(const RawOptions& raw, const std::vector<std::string>& words, Host& host) {
  MpiPart part;
  auto process = mpi_that_counts(raw, host);
  if (!process) return process.error();
  if (!*process) {
    const auto found = launcher::mpi_process(host.env);
    if (raw.as_torchrun || !found || !*found) return part;
    leave_mpi();
    // A job of its own has the host, or the CPUs that its process has among others.
    if ((*found)->local_size == 1) take_cpus_of_host(**found, mpi_ancestry().launcher, {});
    host.cpus = std::max(1, static_cast<int>(launcher::allowed_cpus().size()));
    return part;
  }
  const MpiAncestry above = mpi_ancestry();
  if (!above.program.empty()) {
    say(
        fmt::format("{} has started {}, and that has started this dtrain: a job of its own. To make one job of all "
                    "processes, let {} start dtrain itself",
                    (*process)->launcher, printable(above.program), (*process)->launcher));
    leave_mpi();
    return part;
  }
  host.mpi = Host::Mpi{std::move(**process), std::nullopt};
  // Who only wants to see what would be run does not use up the one meeting.
  if (raw[FlagId::print_config] || raw[FlagId::dry_run]) return part;
  MpiSelf self;
  self.command = command_digest(words);
  self.credential = named_credential(Options(raw, host), host);
  const auto trial = resolve(raw, host);
  if (!trial) {
    self.failure = trial.error().message;
    self.failure_kind = trial.error().kind;
  }
  auto meeting = meet_by_mpi(host.mpi->process, host.env, std::move(self));
  if (!trial) return trial.error();
  if (!meeting) return meeting.error();
  if (meeting->seat.node_rank < 0) return MpiPart{false, {}};
  leave_mpi();
  if (meeting->bound) host.mpi->process.bound = true;
  take_cpus_of_host(host.mpi->process, above.launcher, meeting->seat);
  host.cpus = std::max(1, static_cast<int>(launcher::allowed_cpus().size()));
  host.mpi->meeting = std::move(*meeting);
  part.launcher = watch_launcher(above.launcher);
  return part;
}

// A worker's, which are not true of the job that it starts.
void leave_horovod(const Host& host) {
  if (!host.env.contains("TORCHELASTIC_RUN_ID")) return;
  for (const char* name : {"RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"})
    ::unsetenv((std::string("HOROVOD_") + name).c_str());
}

// The data set of the job, unless the user only wants to see what would be run.
std::optional<int> with_dataset(const RawOptions& raw, const Options& options, Host& host) {
  const auto only_shows = options.on(FlagId::dry_run), quiet = options.on(FlagId::quiet);
  if (only_shows && *only_shows) return std::nullopt;
  return provide_dataset(raw, host, quiet && *quiet);
}

// The processes of an MPI job compare them: each has read the file for itself.
std::vector<std::string> with_config(std::vector<std::string> words, const RawOptions& raw) {
  for (const Flag& row : flags())
    if (const auto& value = raw[row.id]; value && value->origin == Origin::file)
      words.push_back(fmt::format("{}={}", spelled(row), value->text));
  return words;
}

}  // namespace

int run_command(const std::vector<std::string>& words, CalledAs called) {
  auto raw = parse(words, called);
  if (!raw) return fail(raw.error());
  if (auto& asked = (*raw)[FlagId::help]) {
    if (called != CalledAs::dtrain) return print_help(torchrun_help(output_width(), called));
    return print_help((asked->text == "all" ? run_help : common_help)(output_width()));
  }
  if ((*raw)[FlagId::version]) return print(version_line());
  if (auto& shell = (*raw)[FlagId::print_completion]) return print(completion_script(shell->text));
  Host host = this_host();
  leave_horovod(host);
  if (Options(*raw, host).text(FlagId::print_config) == "schema") return print(config_schema());
  const auto said = take_config(*raw, host);
  if (!said) return fail(said.error());
  const Options options(*raw, host);
  const bool asks = options.given(FlagId::print_config);
  if (const auto quiet = options.on(FlagId::quiet); quiet && !*quiet)
    for (const std::string& note : *said) say(note);
  auto hosts = hosts_that_count(*raw, options, host);
  if (!hosts) return fail(hosts.error());
  if (*hosts && !asks) {
    if (const auto code = with_dataset(*raw, options, host)) return *code;
    return submit(*raw, options, host, std::move(**hosts));
  }
  auto cluster = cluster_that_counts(*raw, options, host);
  if (!cluster) return fail(cluster.error());
  if (*cluster && !asks) {
    if (const auto code = with_dataset(*raw, options, host)) return *code;
    return submit_to_cluster(*raw, options, host, std::move(**cluster));
  }
  if (!*hosts && !*cluster && !host.place)
    if (auto done = check_no_ship(options); !done) return fail(done.error());
  const auto step = srun_that_counts(*raw, options, host);
  if (!step) return fail(step.error());
  if (*step && !asks) {
    if (const auto code = with_dataset(*raw, options, host)) return *code;
    return become_srun(options, host, **step);
  }
  const auto part = meet_the_others(*raw, with_config(words, *raw), host);
  if (!part) return fail(part.error());
  if (!part->is_agent) return 0;
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
  if (const auto code = with_dataset(*raw, options, host)) return *code;
  plan->spec.ends_with = part->launcher.get();
  return start_job(*raw, host, std::move(*plan));
}

}  // namespace dtrain::cli
