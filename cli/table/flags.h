#pragma once
// The one table of dtrain's flags. Parser, help, docs/cli.md and the settings that --dry-run prints all read it; adding
// a flag means adding a row in ..._flags.h and a use in cli/resolve.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::cli {

enum class FlagId {
  nproc,
  num_proc,
  max_restarts,
  survivors,
  replica_groups,
  role,
  run_id,
  standalone,
  use_gpu,
  virtual_local_rank,
  numa_binding,
  strategy,
  loader,
  keep_state,
  copy_state,
  state_dir,
  engine,
  backend,
  hosts,
  hostfile,
  include,
  exclude,
  ssh,
  ssh_fanout,
  srun,
  spark,
  resources,
  ship,
  ship_files,
  ship_limit,
  nnodes,
  node_rank,
  topology,
  rdzv_backend,
  rdzv_endpoint,
  rdzv_conf,
  master_addr,
  master_port,
  local_addr,
  token_file,
  tls_ca,
  tls_cert,
  tls_key,
  insecure,
  ha,
  module,
  no_python,
  run_path,
  stdin_mode,
  attach,
  shutdown_timeout,
  failure_grace,
  signals_to_handle,
  pass_signals,
  contain,
  requeue,
  log_dir,
  tee,
  redirects,
  prefix_template,
  ranks,
  local_ranks_filter,
  duplicate_stdout_filters,
  duplicate_stderr_filters,
  timestamps,
  fold,
  report,
  event_log_handler,
  color,
  quiet,
  verbose,
  config,
  dry_run,
  print_config,
  print_completion,
  help,
  version,
  // torchrun's flags that have no work to do here.
  monitor_interval,
  start_method,
  logs_specs,
  use_env,
  count
};
inline constexpr std::size_t kFlagCount = static_cast<std::size_t>(FlagId::count);

enum class Group { workers, nodes, program, stopping, output, general, torchrun };

// How much of a flag this version does.
enum class Compat {
  none,     // all of it
  ignored,  // no effect: its value is checked (torchrun.cc), and it is said once
  missing,  // not in this version: an error
};

// The name that dtrain was called by. It decides which names may be shortened and whose defaults count.
enum class CalledAs {
  dtrain,    // dtrain run
  torchrun,  // torchrun, python -m torch.distributed.run
  launch,    // dtrain launch, python -m torch.distributed.launch: torchrun, but with --local-rank
};
// What is typed for it: "dtrain run", "torchrun", "dtrain launch".
std::string_view typed_for(CalledAs called);

// One row. Names are written with '-'; '_' is accepted everywhere in its place.
struct Flag {
  FlagId id;
  Group group;
  std::string_view name;           // without the leading "--"
  std::string_view alias = {};     // a second long name
  char letter = 0;                 // -t
  std::string_view value = {};     // what the help calls the value, with its unit; empty: a switch
  std::string_view choices = {};   // words that the value may be, separated by commas; a switch: after '=' only
  std::string_view fallback = {};  // the default, in the syntax of the flag; empty: none
  std::string_view pet = {};       // torchrun's destination: the variable is PET_<pet>; empty: torchrun has none
  std::string_view also = {};      // a further variable, read last
  std::string_view help = {};      // one line
  std::string_view details = {};   // what the line does not say: special values, coupling, cost
  Compat compat = Compat::none;

  bool is_switch() const { return value.empty(); }
};

// All rows, ordered by FlagId.
std::span<const Flag> flags();
const Flag& flag(FlagId id);

// "--nproc" for the flag's own name.
std::string spelled(const Flag& flag);

// DTRAIN_<NAME>; empty for flags that make no sense in the environment (help, version, torchrun's).
std::string dtrain_variable(const Flag& flag);
// PET_<DEST>, or empty.
std::string pet_variable(const Flag& flag);

// What torchrun calls this flag, without "--"; empty if it has no such flag.
std::string torchrun_name(const Flag& flag);

// The flag of this long name ('_' and '-' are the same), or of this letter; nullptr if there is none.
const Flag* find_flag(std::string_view name);
const Flag* find_letter(char letter);
// Flags with a name that starts with `prefix`, each once. As torchrun only its own names may be shortened: what is
// unambiguous there stays so, however many flags dtrain adds.
std::vector<const Flag*> flags_with_prefix(std::string_view prefix, CalledAs called = CalledAs::dtrain);

std::string_view title(Group group);

// The groups that the help lists, in its order.
inline constexpr Group kGroups[] = {Group::workers,  Group::nodes,  Group::program,
                                    Group::stopping, Group::output, Group::general};
// The flags of a group that this version does in full.
std::vector<const Flag*> supported(Group group);

// "-t, --tee STREAMS"
std::string synopsis(const Flag& flag);
// The variables of a flag: "DTRAIN_TEE, PET_TEE", each between `quote`s.
std::string variables(const Flag& flag, std::string_view quote = "");
// "auto,cpu,gpu" -> "auto, cpu, gpu", each between `quote`s.
std::string in_words(std::string_view choices, std::string_view quote = "");

}  // namespace dtrain::cli
