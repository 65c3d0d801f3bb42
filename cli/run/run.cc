#include "cli/run/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/base/fail.h"
#include "cli/base/print.h"
#include "cli/base/terminal.h"
#include "cli/base/usage_error.h"
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
#include "cli/run/job_layout.h"
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
Result<MpiPart> meet_the_others(const RawOptions& raw, const std::vector<std::string>& words, bool only_shows,
                                Host& host) {
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
  if (only_shows) return part;
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

// Whether there is something to do before the job.
bool needs_data(const RawOptions& raw) { return raw.data || raw.raw_input; }

// What whoever starts the agents has been told already. It ends with the command.
std::vector<std::vector<std::string>*> words_of_agents(JobStart& start) {
  std::vector<std::vector<std::string>*> all;
  if (start.hosts) all.push_back(&start.hosts->task.words);
  if (start.cluster) all.push_back(&start.cluster->placement.task.words);
  if (start.srun) all.push_back(&*start.srun);
  return all;
}

// Empty: the nodes cannot be asked before the job starts.
AskNodes question_for_nodes(const Options& options, const JobStart& start) {
  if (start.hosts && has_other_hosts(*start.hosts))
    return
        [&](const std::string& folder) { return look_on_hosts(start.raw, options, start.host, *start.hosts, folder); };
  if (start.cluster)
    return [&](const std::string& folder) {
      return look_on_cluster(start.raw, options, start.host, *start.cluster, folder);
    };
  // On a login host the nodes are not known before the job starts.
  if (start.srun && !start.host.variable(kNodesOfAllocation).empty())
    return [&](const std::string& folder) { return look_on_step(start.host, *start.srun, folder); };
  return {};
}

// The data of the job, unless the user only wants to see what would be run.
std::optional<int> with_data(const Options& options, JobStart& start) {
  const auto only_shows = options.on(FlagId::dry_run), quiet = options.on(FlagId::quiet);
  if (only_shows && *only_shows) return std::nullopt;
  const bool becomes_another = start.srun.has_value();
  const JobNodes nodes{start.hosts ? &*start.hosts : nullptr, start.cluster ? &*start.cluster : nullptr,
                       becomes_another};
  const DataAs as{quiet && *quiet, becomes_another, nodes, question_for_nodes(options, start)};
  if (const auto code = provide_dataset(start.raw, start.host, as)) return code;
  if (const auto code = provide_rows(start.raw, start.host, as)) return code;
  if (start.raw.raw_input)
    for (std::vector<std::string>* words : words_of_agents(start)) {
      const std::size_t place = start.raw.raw_input->place;
      (*words)[words->size() - start.raw.command.size() + place] = start.raw.command[place];
    }
  return std::nullopt;
}

// What would keep a job from starting whose agents somebody else starts, as far as it is known here.
Result<void> check_start_elsewhere(const JobStart& start, const Options& options) {
  if (auto done = judge_for_nodes(start.raw, options, start.host); !done) return done;
  return start.hosts ? check_submission(start.raw, options, start.host, *start.hosts) : Result<void>();
}

// The processes of an MPI job compare them: each has read the file for itself.
std::vector<std::string> with_config(std::vector<std::string> words, const RawOptions& raw) {
  for (const Flag& row : flags())
    if (const auto& value = raw[row.id]; value && value->origin == Origin::file)
      words.push_back(fmt::format("{}={}", spelled(row), value->text));
  return words;
}

int show_plan(const RawOptions& typed, const std::vector<std::string>& words, bool as_json) {
  auto start = find_start(typed, this_host());
  if (!start) return fail(start.error());
  const Options options(start->raw, start->host);
  const auto shown = [&](const JobLayout& layout) { return print((as_json ? layout_json : layout_text)(layout)); };
  if (start->hosts || start->cluster || start->srun)
    if (auto done = check_start_elsewhere(*start, options); !done) return fail(done.error());
  if (start->hosts) return shown(layout_on_hosts(*start->hosts, options));
  if (start->cluster) {
    const auto look = look_at_cluster(start->raw, options, start->host, *start->cluster);
    if (!look) return fail(look.error());
    if (look->signal != 0) return 128 + look->signal;
    return shown(layout_on_cluster(*start->cluster, look->placed, options));
  }
  if (start->srun) {
    const auto part = part_of_step(options, start->host);
    return part ? shown(layout_of_step(options, start->host, *part)) : fail(part.error());
  }
  const auto part = meet_the_others(start->raw, with_config(words, start->raw), true, start->host);
  if (!part) return fail(part.error());
  const auto plan = resolve(start->raw, start->host);
  if (!plan) return fail(plan.error());
  for (const std::string& warning : plan->warnings) say(warning);
  if (!plan->spec.quiet)
    for (const std::string& note : plan->notes) say(note);
  return shown(layout_here(*plan, start->host));
}

// Takes a `--json` out that is typed among the flags.
bool take_json(std::vector<std::string>& words) {
  for (auto word = std::find(words.begin(), words.end(), "--json"); word != words.end();
       word = std::find(word + 1, words.end(), "--json")) {
    const auto before = parse(std::vector<std::string>(words.begin(), word));
    if (!before || before->ended || !before->command.empty()) continue;
    words.erase(word);
    return true;
  }
  return false;
}

}  // namespace

Result<JobStart> find_start(RawOptions raw, Host host) {
  JobStart start;
  leave_horovod(host);
  const auto said = take_config(raw, host);
  if (!said) return said.error();
  const Options options(raw, host);
  if (const auto quiet = options.on(FlagId::quiet); quiet && !*quiet)
    for (const std::string& note : *said) say(note);
  auto hosts = hosts_that_count(raw, options, host);
  if (!hosts) return hosts.error();
  start.hosts = std::move(*hosts);
  if (!start.hosts) {
    auto cluster = cluster_that_counts(raw, options, host);
    if (!cluster) return cluster.error();
    start.cluster = std::move(*cluster);
  }
  if (!start.hosts && !start.cluster) {
    if (!host.place)
      if (auto done = check_no_ship(options); !done) return done.error();
    auto step = srun_that_counts(raw, options, host);
    if (!step) return step.error();
    start.srun = std::move(*step);
  }
  start.raw = std::move(raw);
  start.host = std::move(host);
  return start;
}

int plan_command(std::vector<std::string> words) {
  const bool as_json = take_json(words);
  const auto raw = parse(words);
  if (!raw) return fail(raw.error());
  if ((*raw)[FlagId::help]) return print_help(help_on("plan", output_width()));
  for (const FlagId id : {FlagId::dry_run, FlagId::print_config, FlagId::version, FlagId::print_completion})
    if (const auto& asked = (*raw)[id])
      return fail(usage_error(
          fmt::format("dtrain plan runs nothing and prints the layout; {} is for dtrain run", asked->where)));
  return show_plan(*raw, words, as_json);
}

int run_command(const std::vector<std::string>& words, CalledAs called, std::optional<RawInput> raw_input) {
  auto raw = parse(words, called);
  if (!raw) return fail(raw.error());
  raw->raw_input = std::move(raw_input);
  if (auto& asked = (*raw)[FlagId::help]) {
    if (called != CalledAs::dtrain) return print_help(torchrun_help(output_width(), called));
    return print_help((asked->text == "all" ? run_help : common_help)(output_width()));
  }
  if ((*raw)[FlagId::version]) return print(version_line());
  if (auto& shell = (*raw)[FlagId::print_completion]) return print(completion_script(shell->text));
  Host host = this_host();
  if (Options(*raw, host).text(FlagId::print_config) == "schema") return print(config_schema());
  auto start = find_start(std::move(*raw), std::move(host));
  if (!start) return fail(start.error());
  const RawOptions& typed = start->raw;
  const Options options(typed, start->host);
  const bool asks = options.given(FlagId::print_config);
  if (!asks && (start->hosts || start->cluster || start->srun)) {
    if (needs_data(typed))  // nobody waits for a data set of a job that cannot start
      if (auto done = check_start_elsewhere(*start, options); !done) return fail(done.error());
    if (const auto code = with_data(options, *start)) return *code;
    if (start->hosts) return submit(typed, options, start->host, std::move(*start->hosts));
    if (start->cluster) return submit_to_cluster(typed, options, start->host, std::move(*start->cluster));
    return become_srun(options, start->host, *start->srun);
  }
  const bool only_shows = typed[FlagId::print_config] || typed[FlagId::dry_run];
  const auto part = meet_the_others(typed, with_config(words, typed), only_shows, start->host);
  if (!part) return fail(part.error());
  if (!part->is_agent) return 0;
  auto plan = resolve(typed, start->host);
  if (!plan) return fail(plan.error());
  if (plan->print_config == Plan::PrintConfig::json) return print(settings_json(plan->settings));
  if (plan->print_config == Plan::PrintConfig::all) return print(all_settings(plan->settings));
  if (plan->print_config == Plan::PrintConfig::text) return print(chosen_settings(plan->settings));
  if (plan->dry_run) {
    if (!plan->awaited_host.empty())
      say(fmt::format("there is no host {} yet; the job would wait for it", plan->awaited_host));
    return print(describe(*plan, start->host.env));
  }
  if (needs_data(typed)) {
    if (const auto code = with_data(options, *start)) return *code;
    plan = resolve(typed, start->host);  // the time that SLURM gives has gone on
    if (!plan) return fail(plan.error());
  }
  plan->spec.ends_with = part->launcher.get();
  return start_job(typed, start->host, std::move(*plan));
}

}  // namespace dtrain::cli
