// The table itself, and look-ups in it.
#include "cli/flags.h"

#include <algorithm>

namespace dtrain::cli {
namespace {

constexpr Flag kFlags[] = {
    {.id = FlagId::nproc,
     .group = Group::workers,
     .name = "nproc",
     .alias = "nproc-per-node",
     .value = "N",
     .fallback = "1",
     .pet = "NPROC_PER_NODE",
     .help = "workers on this node: a number, auto, cpu or gpu",
     .details = "A number from 1 to 16384. `cpu`: one for each core this process may run on. `gpu`: one for each GPU "
                "visible (CUDA_VISIBLE_DEVICES if set, else what the NVIDIA driver reports); no GPU is an error. "
                "`auto`: as `gpu` if there is a GPU, else as `cpu`."},
    {.id = FlagId::max_restarts,
     .group = Group::workers,
     .name = "max-restarts",
     .value = "N",
     .fallback = "0",
     .pet = "MAX_RESTARTS",
     .help = "restart all workers up to N times after a failure",
     .details = "All workers of the job are stopped and started again as a new round. A program that could not be "
                "started at all is not tried again."},
    {.id = FlagId::role,
     .group = Group::workers,
     .name = "role",
     .value = "NAME",
     .fallback = "default",
     .pet = "ROLE",
     .help = "name of the workers' role (ROLE_NAME)",
     .details = ""},
    {.id = FlagId::run_id,
     .group = Group::workers,
     .name = "rdzv-id",
     .alias = "run-id",
     .value = "NAME",
     .pet = "RDZV_ID",
     .help = "name of the job (TORCHELASTIC_RUN_ID)",
     .details = "Also names the job's log folder, so it may not contain a slash. Without it each job gets a name of "
                "its own."},
    {.id = FlagId::standalone,
     .group = Group::workers,
     .name = "standalone",
     .pet = "STANDALONE",
     .help = "one node, nothing shared with other jobs",
     .details = "This is what a job on one node does anyway; accepted so that torchrun's command lines work."},

    {.id = FlagId::module,
     .group = Group::program,
     .name = "module",
     .letter = 'm',
     .pet = "MODULE",
     .help = "PROGRAM is a Python module: python -u -m PROGRAM",
     .details = "Python is $PYTHON_EXEC, else $VIRTUAL_ENV/bin/python, else python3 or python in PATH."},
    {.id = FlagId::no_python,
     .group = Group::program,
     .name = "no-python",
     .pet = "NO_PYTHON",
     .help = "execute PROGRAM itself, never through Python",
     .details = "Without this flag a .py file, a .pyz or .zip archive, a folder with a __main__.py and a file that "
                "is not executable but starts with a #! line for Python run as python -u PROGRAM; everything else is "
                "executed directly."},
    {.id = FlagId::stdin_mode,
     .group = Group::program,
     .name = "stdin",
     .value = "all|none|RANK",
     .fallback = "all",
     .help = "which workers read dtrain's standard input",
     .details = "`all`: every worker inherits it, as under torchrun. A number: the worker of this local rank has it. "
                "`none`: nobody. The others read /dev/null."},

    {.id = FlagId::shutdown_timeout,
     .group = Group::stopping,
     .name = "shutdown-timeout",
     .value = "SECONDS",
     .fallback = "30",
     .pet = "SHUTDOWN_TIMEOUT",
     .also = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT",
     .help = "from a request to stop to SIGKILL",
     .details = "After Ctrl-C or another of --signals-to-handle the workers have this long to end by themselves. "
                "Fractions are allowed; 0 kills at once."},
    {.id = FlagId::failure_grace,
     .group = Group::stopping,
     .name = "failure-grace",
     .value = "SECONDS",
     .fallback = "5",
     .help = "from a worker's failure to SIGKILL of the others",
     .details = "The others get SIGTERM first. Fractions are allowed; 0 kills at once."},
    {.id = FlagId::signals_to_handle,
     .group = Group::stopping,
     .name = "signals-to-handle",
     .value = "SIGNALS",
     .fallback = "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
     .pet = "SIGNALS_TO_HANDLE",
     .help = "signals that stop the job",
     .details = "Names or numbers, separated by commas; SIG may be left out. Each is passed to the workers first; "
                "--shutdown-timeout later they are killed."},
    {.id = FlagId::pass_signals,
     .group = Group::stopping,
     .name = "pass-signals",
     .value = "SIGNALS",
     .fallback = "USR1,USR2",
     .help = "signals passed to the workers; the job goes on",
     .details = "Names or numbers, separated by commas; `none` for none. A default that --signals-to-handle names "
                "stops the job instead."},
    {.id = FlagId::contain,
     .group = Group::stopping,
     .name = "contain",
     .value = "LEVEL",
     .fallback = "auto",
     .help = "auto, cgroup, subreaper or pidns: how workers are held",
     .details = "What makes sure that no process of the job survives it. `auto` takes `cgroup` where a cgroup v2 "
                "subtree is writable, else `subreaper`. A level that this machine cannot give is an error; "
                "`dtrain doctor` tells which it can."},

    {.id = FlagId::log_dir,
     .group = Group::output,
     .name = "log-dir",
     .value = "DIR",
     .pet = "LOG_DIR",
     .help = "base folder of the workers' log files",
     .details = "Each job makes a folder of its own in it. Without it a folder is made in $TMPDIR when it is needed. "
                "/dev/null: no files at all."},
    {.id = FlagId::tee,
     .group = Group::output,
     .name = "tee",
     .letter = 't',
     .value = "STREAMS",
     .fallback = "0",
     .pet = "TEE",
     .help = "write streams to files as well as to the console",
     .details = "0 none, 1 stdout, 2 stderr, 3 both, for all workers; or by local rank, e.g. 0:3,1:2 (ranks not "
                "named: none)."},
    {.id = FlagId::redirects,
     .group = Group::output,
     .name = "redirects",
     .letter = 'r',
     .value = "STREAMS",
     .fallback = "0",
     .pet = "REDIRECTS",
     .help = "write streams to files instead of to the console",
     .details = "The syntax of --tee."},
    {.id = FlagId::prefix_template,
     .group = Group::output,
     .name = "log-line-prefix-template",
     .value = "TEXT",
     .pet = "LOG_LINE_PREFIX_TEMPLATE",
     .also = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE",
     .help = "text before each line on the console",
     .details = "${rank}, ${local_rank}, ${role_name} and ${hostname} are replaced. Default: \"[${rank}] \", and "
                "torchrun's \"[${role_name}${local_rank}]:\" when called as torchrun."},
    {.id = FlagId::report,
     .group = Group::output,
     .name = "report",
     .value = "FILE",
     .help = "write the failure report as JSON to FILE",
     .details = ""},
    {.id = FlagId::color,
     .group = Group::output,
     .name = "color",
     .value = "WHEN",
     .fallback = "auto",
     .help = "auto, always or never",
     .details = "`auto`: on a terminal, unless NO_COLOR is set or TERM is dumb."},
    {.id = FlagId::quiet,
     .group = Group::output,
     .name = "quiet",
     .help = "say nothing at start; errors and reports still come",
     .details = ""},

    {.id = FlagId::dry_run,
     .group = Group::general,
     .name = "dry-run",
     .help = "show what would run, with each setting's origin",
     .details = "Nothing is started; exits with 0."},
    {.id = FlagId::help,
     .group = Group::general,
     .name = "help",
     .letter = 'h',
     .help = "show this help",
     .details = "`dtrain help FLAG` tells more about one flag."},
    {.id = FlagId::version, .group = Group::general, .name = "version", .help = "show the version", .details = ""},

    {.id = FlagId::nnodes,
     .group = Group::torchrun,
     .name = "nnodes",
     .value = "MIN:MAX",
     .fallback = "1:1",
     .pet = "NNODES",
     .help = "only 1 (or 1:1) in this version",
     .compat = Compat::one_node},
    {.id = FlagId::node_rank,
     .group = Group::torchrun,
     .name = "node-rank",
     .value = "N",
     .fallback = "0",
     .pet = "NODE_RANK",
     .help = "only 0 in this version",
     .compat = Compat::zero},
    {.id = FlagId::rdzv_backend,
     .group = Group::torchrun,
     .name = "rdzv-backend",
     .value = "NAME",
     .pet = "RDZV_BACKEND",
     .help = "no effect on one node",
     .compat = Compat::ignored},
    {.id = FlagId::rdzv_endpoint,
     .group = Group::torchrun,
     .name = "rdzv-endpoint",
     .value = "HOST:PORT",
     .pet = "RDZV_ENDPOINT",
     .help = "no effect on one node",
     .compat = Compat::ignored},
    {.id = FlagId::rdzv_conf,
     .group = Group::torchrun,
     .name = "rdzv-conf",
     .value = "K=V,...",
     .pet = "RDZV_CONF",
     .help = "no effect on one node",
     .compat = Compat::ignored},
    {.id = FlagId::master_addr,
     .group = Group::torchrun,
     .name = "master-addr",
     .value = "HOST",
     .pet = "MASTER_ADDR",
     .help = "no effect on one node",
     .compat = Compat::ignored},
    {.id = FlagId::master_port,
     .group = Group::torchrun,
     .name = "master-port",
     .value = "PORT",
     .pet = "MASTER_PORT",
     .help = "no effect on one node",
     .compat = Compat::ignored},
    {.id = FlagId::local_addr,
     .group = Group::torchrun,
     .name = "local-addr",
     .value = "HOST",
     .pet = "LOCAL_ADDR",
     .help = "no effect on one node",
     .compat = Compat::ignored},
    {.id = FlagId::monitor_interval,
     .group = Group::torchrun,
     .name = "monitor-interval",
     .value = "SECONDS",
     .pet = "MONITOR_INTERVAL",
     .help = "no effect: workers are watched, not polled",
     .compat = Compat::ignored},
    {.id = FlagId::start_method,
     .group = Group::torchrun,
     .name = "start-method",
     .value = "NAME",
     .pet = "START_METHOD",
     .help = "no effect: workers are always executed afresh",
     .compat = Compat::ignored},
    {.id = FlagId::event_log_handler,
     .group = Group::torchrun,
     .name = "event-log-handler",
     .value = "NAME",
     .fallback = "null",
     .pet = "EVENT_LOG_HANDLER",
     .help = "only null in this version",
     .compat = Compat::default_only},
    {.id = FlagId::logs_specs,
     .group = Group::torchrun,
     .name = "logs-specs",
     .value = "NAME",
     .fallback = "default",
     .help = "only default in this version",
     .compat = Compat::default_only},
    {.id = FlagId::run_path,
     .group = Group::torchrun,
     .name = "run-path",
     .pet = "RUN_PATH",
     .help = "not in this version",
     .compat = Compat::missing},
    {.id = FlagId::local_ranks_filter,
     .group = Group::torchrun,
     .name = "local-ranks-filter",
     .value = "RANKS",
     .pet = "LOCAL_RANKS_FILTER",
     .help = "not in this version",
     .compat = Compat::missing},
    {.id = FlagId::duplicate_stdout_filters,
     .group = Group::torchrun,
     .name = "duplicate-stdout-filters",
     .value = "TEXTS",
     .pet = "DUPLICATE_STDOUT_FILTERS",
     .help = "not in this version",
     .compat = Compat::missing},
    {.id = FlagId::duplicate_stderr_filters,
     .group = Group::torchrun,
     .name = "duplicate-stderr-filters",
     .value = "TEXTS",
     .pet = "DUPLICATE_STDERR_FILTERS",
     .help = "not in this version",
     .compat = Compat::missing},
    {.id = FlagId::numa_binding,
     .group = Group::torchrun,
     .name = "numa-binding",
     .value = "MODE",
     .help = "not in this version",
     .compat = Compat::missing},
    {.id = FlagId::virtual_local_rank,
     .group = Group::torchrun,
     .name = "virtual-local-rank",
     .pet = "VIRTUAL_LOCAL_RANK",
     .help = "not in this version",
     .compat = Compat::missing},
    {.id = FlagId::print_completion,
     .group = Group::torchrun,
     .name = "print-completion",
     .value = "SHELL",
     .help = "not in this version",
     .compat = Compat::missing},
};

constexpr bool ordered_by_id() {
  for (std::size_t i = 0; i < std::size(kFlags); ++i)
    if (static_cast<std::size_t>(kFlags[i].id) != i) return false;
  return true;
}
static_assert(std::size(kFlags) == kFlagCount && ordered_by_id(), "one row for each FlagId, in its order");

char dashed(char c) { return c == '_' ? '-' : c; }

bool same_name(std::string_view typed, std::string_view name) {
  return std::equal(typed.begin(), typed.end(), name.begin(), name.end(),
                    [](char a, char b) { return dashed(a) == b; });
}

bool starts(std::string_view name, std::string_view prefix) {
  return name.size() >= prefix.size() && same_name(prefix, name.substr(0, prefix.size()));
}

std::string upper(std::string_view name) {
  std::string out;
  for (char c : name) out += c == '-' ? '_' : (c >= 'a' && c <= 'z') ? static_cast<char>(c - 'a' + 'A') : c;
  return out;
}

}  // namespace

std::span<const Flag> flags() { return kFlags; }
const Flag& flag(FlagId id) { return kFlags[static_cast<std::size_t>(id)]; }
std::string spelled(const Flag& flag) { return "--" + std::string(flag.name); }

std::string dtrain_variable(const Flag& flag) {
  bool in_environment = flag.group != Group::torchrun && flag.id != FlagId::help && flag.id != FlagId::version;
  return in_environment ? "DTRAIN_" + upper(flag.name) : "";
}

std::string pet_variable(const Flag& flag) { return flag.pet.empty() ? "" : "PET_" + std::string(flag.pet); }

const Flag* find_flag(std::string_view name) {
  for (const Flag& row : kFlags)
    if (same_name(name, row.name) || (!row.alias.empty() && same_name(name, row.alias))) return &row;
  return nullptr;
}

const Flag* find_letter(char letter) {
  for (const Flag& row : kFlags)
    if (letter != 0 && row.letter == letter) return &row;
  return nullptr;
}

std::vector<const Flag*> flags_with_prefix(std::string_view prefix) {
  std::vector<const Flag*> found;
  for (const Flag& row : kFlags)
    if (starts(row.name, prefix) || starts(row.alias, prefix)) found.push_back(&row);
  return found;
}

std::string_view title(Group group) {
  switch (group) {
    case Group::workers:
      return "Workers";
    case Group::program:
      return "Program";
    case Group::stopping:
      return "Stopping";
    case Group::output:
      return "Output";
    case Group::general:
      return "General";
    case Group::torchrun:
      return "Known from torchrun";
  }
  return "";
}

}  // namespace dtrain::cli
