// The commands.
// Tested by test/unit/cli/help/help_test.cc.
#include "cli/table/command_table.h"

#include <fmt/format.h>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/table/flags.h"

namespace dtrain::cli {
namespace {

constexpr CommandFlag kEnvFlags[] = {{.name = "json", .help = "print it as JSON"}};
constexpr CommandFlag kTokenFlags[] = {
    {.name = "new", .help = "make a new token; never overwrites a file"},
    {.name = "code", .help = "make a token that can be typed: shows its code on the terminal"},
    {.name = "join", .help = "make the token of a code: asks for the code, or reads it from stdin"},
    {.name = "file",
     .value = "FILE",
     .help = "use this file instead of ~/.config/dtrain/token",
     .wants = "a file's name"},
};
constexpr CommandFlag kLogsFlags[] = {
    {.name = "ranks", .value = "RANKS", .help = "only these local ranks, e.g. 0,5-7"},
    {.name = "rank", .letter = 'r', .value = "RANK", .help = "the same as --ranks"},
    {.name = "grep", .letter = 'g', .value = "TEXT", .help = "only lines that contain TEXT"},
    {.name = "since", .value = "TIME", .help = "only what was written since TIME: 10m, 13:00, 2026-11-21T13:00"},
    {.name = "attempt", .value = "N", .help = "the rounds after N restarts; without it, the last round"},
    {.name = "stdout", .help = "only stdout"},
    {.name = "stderr", .help = "only stderr"},
    {.name = "follow", .letter = 'f', .help = "keep printing what is written, in new rounds too"},
};

constexpr CommandFlag kStatusFlags[] = {
    {.name = "job", .value = "ID", .help = "only this job, by its --rdzv-id", .wants = "the job's id"},
    {.name = "json", .help = "print it as JSON"},
};

constexpr CommandFlag kAgentFlags[] = {
    {.name = "relay", .help = "dial back to the submitter that standard input names"},
    {.name = "look",
     .value = "FOLDER",
     .help = "say whether this node sees a folder of the cache, and end",
     .wants = "the folder"},
};

constexpr CommandFlag kDoctorFlags[] = {
    {.name = "preflight", .help = "exit with 0, 10 (warning), 20 (try again) or 30 (never)"}};

constexpr CommandFlag kPlanFlags[] = {{.name = "json", .help = "print it as JSON"}};

constexpr CommandFlag kPredictFlags[] = {
    {.name = "recipe",
     .value = "FILE",
     .help = "INPUT is raw: apply this recipe.json, or `config`'s",
     .wants = "a recipe.json, or the word config"},
    {.name = "filter", .help = "--recipe: its filters leave rows out, too"},
    {.name = "without",
     .value = "COLUMNS",
     .help = "--recipe: leave out these columns, such as the label",
     .wants = "names of columns, with commas"},
    {.name = "keep",
     .value = "COLUMNS",
     .help = "--recipe: SCRIPT gets these of INPUT too, such as an id",
     .wants = "names of columns, with commas"},
};

constexpr CommandFlag kFlightFlags[] = {{.name = "json", .help = "print it as JSON"}};

constexpr CommandFlag kCkptFlags[] = {
    {.name = "json", .help = "inspect: print it as JSON"},
    {.name = "max-size",
     .value = "SIZE",
     .help = "consolidate, convert: most bytes of a file, such as 5GB; default one file"},
    {.name = "dtype", .value = "TYPE", .help = "convert: floating tensors become float32, bfloat16 or float16"},
    {.name = "rename", .value = "FROM=TO", .help = "convert: names that begin with FROM begin with TO; repeatable"},
};

constexpr CommandFlag kEstimateFlags[] = {
    {.name = "parameters", .value = "COUNT", .help = "so many parameters, in place of PATH: 350M, 7B, 7e9"},
    {.name = "nproc", .value = "N", .help = "ranks on each node"},
    {.name = "nnodes", .value = "N", .help = "nodes; default 1"},
    {.name = "ranks", .value = "N", .help = "ranks in all, in place of --nproc and --nnodes"},
    {.name = "strategy", .value = "NAME", .help = "this strategy alone: a word, JSON or a file, as for run"},
    {.name = "micro-batches", .value = "N", .help = "backwards of a rank in a step, if the strategy is deterministic"},
    {.name = "optimizer", .value = "NAME", .help = "adamw (default), adam, lamb, adagrad, muon, sgd, sgd-momentum"},
    {.name = "state", .value = "TYPE", .help = "type of the optimizer's state: float32 (default), bfloat16"},
    {.name = "state-on-disk", .help = "the state lies in a state_folder"},
    {.name = "units", .value = "UNITS", .help = "units of fsdp: names such as model.layers.N, or a number"},
    {.name = "memory", .value = "SIZE", .help = "memory of a rank, as 80GB: marks what fits"},
    {.name = "json", .help = "print it as JSON"},
};

constexpr CommandFlag kPreprocessFlags[] = {
    {.name = "config", .value = "FILE", .help = "the job's file, with a section `dataset`", .wants = "a file's name"},
    {.name = "cache-dir",
     .value = "DIR",
     .help = "use this cache instead of the file's backend.cache_dir",
     .wants = "a folder"},
    {.name = "threads", .value = "N", .help = "threads of the work; default all cores"},
    {.name = "wait", .value = "SECONDS", .help = "wait so long for another job that builds it; default 3600"},
    {.name = "json", .help = "print the result as JSON"},
};

constexpr CommandFlag kCacheFlags[] = {
    {.name = "config", .value = "FILE", .help = "the cache of this job's file", .wants = "a file's name"},
    {.name = "cache-dir", .value = "DIR", .help = "this cache", .wants = "a folder"},
    {.name = "json", .help = "ls: print it as JSON"},
    {.name = "ttl", .value = "AGE", .help = "gc: remove what no job took for AGE: 30d, 12h", .wants = "an age"},
    {.name = "max-size", .value = "SIZE", .help = "gc: remove the longest unused above SIZE: 100GB", .wants = "a size"},
};

constexpr CommandFlag kRendezvousFlags[] = {
    {.name = "port", .value = "N", .help = "port to listen at, 0 for any free port; default 29400"},
    {.name = "bind", .value = "ADDR", .help = "listen only at this address of this host; default all"},
    {.name = "token-file", .value = "FILE", .help = "the token that jobs need, as for run"},
    {.name = "tls-ca", .value = "FILE", .help = "use certificates, not a token, as for run"},
    {.name = "tls-cert", .value = "FILE", .help = "the server's certificate"},
    {.name = "tls-key", .value = "FILE", .help = "the server's private key"},
    {.name = "max-jobs", .value = "N", .help = "most jobs at a time; default 256"},
    {.name = "max-nodes", .value = "N", .help = "most nodes of all jobs together; default 16384"},
    {.name = "max-store-mib", .value = "N", .help = "most memory of one job's store; default 1024"},
    {.name = "max-store-keys", .value = "N", .help = "most keys of one job's store; default 1000000"},
    {.name = "open-store", .value = "ADDR:PORT", .help = "open a store for torchrun agents too; NO AUTHENTICATION"},
};

constexpr Command kCommands[] = {
    {.id = CommandId::run,
     .name = "run",
     .arguments = "[flags] PROGRAM [program's arguments]",
     .help = "start PROGRAM as several workers and watch them to their end"},
    {.id = CommandId::plan,
     .name = "plan",
     .arguments = "[--json] [flags] PROGRAM [program's arguments]",
     .help = "show where the workers of such a run would be",
     .details =
         "Takes the flags of `dtrain run` and decides all that it would, but starts nothing. Prints the nodes with "
         "their workers, ranks, GPUs, CPUs and memory, and where the values come from (docs/plan.md). It asks a "
         "cluster of Ray or Spark for its size, and no other host. The exit code is 0, or that of a run that "
         "cannot start.",
     .flags = kPlanFlags},
    {.id = CommandId::predict,
     .name = "predict",
     .arguments = "[flags] SCRIPT INPUT OUTPUT [script's arguments]",
     .help = "apply a function to a data set, each part once",
     .details =
         "Takes the flags of `dtrain run`. SCRIPT has a function predict(table), which is called once for each "
         "row group of INPUT (a Parquet file, a folder or a pattern) with a pyarrow.Table, and returns a row for "
         "each of its rows. A program in C++ can take its place. The workers share the row groups. Each result is a "
         "file of the folder OUTPUT, in the order of INPUT, written whole and once, whatever dies; the same command "
         "goes on where a job has ended (docs/predict.md).",
     .flags = kPredictFlags},
    {.id = CommandId::launch,
     .name = "launch",
     .arguments = "[flags] PROGRAM [program's arguments]",
     .help = "do what torch.distributed.launch does: add --local-rank=N",
     .details = "Takes the flags of `dtrain run` and behaves as torchrun does, but puts --local-rank=N before the "
                "program's arguments unless --use-env is given.",
     .once = true},
    {.id = CommandId::shim,
     .name = "shim",
     .arguments = "COMMAND [its arguments]",
     .help = "run COMMAND so that torchrun is dtrain in all that it starts",
     .details = "For commands that start torchrun themselves, such as `accelerate launch` or `fabric run`. In COMMAND "
                "and below it, torchrun in PATH, python -m torch.distributed.run and launch, and the functions of "
                "torch.distributed.launcher are dtrain. No file of Python or torch is changed: PATH and PYTHONPATH "
                "begin with folders in $XDG_CACHE_HOME/dtrain or ~/.cache/dtrain. COMMAND takes the place of "
                "dtrain, so the exit code is its own (docs/shim.md).",
     .runs_command = true,
     .once = true},
    {.id = CommandId::agent,
     .name = "agent",
     .help = "be the agent of one node: for engines, which start it",
     .details = "It says on standard output who it is, and reads its task from standard input: the flags and the "
                "program of a `dtrain run`, its environment, and where the nodes meet. `dtrain run --hosts` starts it "
                "by ssh. The end of its input ends the job. With --relay it starts such an agent, and carries its "
                "input and output "
                "over a link. With --look it reads nothing: it prints why this node cannot use the folder, or nothing. "
                "docs/hosts.md has the messages.",
     .flags = kAgentFlags,
     .once = true},
    {.id = CommandId::logs,
     .name = "logs",
     .arguments = "DIR [flags]",
     .help = "print what workers have written to files",
     .details = "DIR is the --log-dir of a run of dtrain or torchrun, or the folder of one job in it. If DIR has "
                "several jobs, the newest is printed. Ranks come one after the other, or by time if the lines begin "
                "with times. Exits with 0 if there was something to print, 1 if not, 2 if DIR or a flag is wrong.",
     .flags = kLogsFlags},
    {.id = CommandId::status,
     .name = "status",
     .arguments = "[--job ID] [--json]",
     .help = "show what your jobs on this host are doing, and why",
     .details =
         "For each job that has an agent on this host, it shows the round, the nodes on all hosts, the missing nodes, "
         "the workers of this node, and the last decisions with their reasons. For a worker it shows whether it is "
         "stopped, waits for a disk or is idle. Only your own jobs answer. Exits with 0 if there was a job, 1 if not.",
     .flags = kStatusFlags},
    {.id = CommandId::flight,
     .name = "flight",
     .arguments = "DIR|FILE... [--json]",
     .help = "say which rank is missing in which collective",
     .details = "Compares the files that the ranks' flight recorders wrote when a collective failed or a signal asked "
                "for them (docs/debugging.md). DIR is the folder that the error message names, or the --log-dir of the "
                "run. For a job on several nodes, give the folder of each node. Exits with 0 if nothing stands still, "
                "1 if something does, 2 if DIR or a file is wrong.",
     .flags = kFlightFlags},
    {.id = CommandId::ckpt,
     .name = "ckpt",
     .arguments = "inspect|verify|consolidate|convert PATH [FOLDER] [flags]",
     .help = "show what is in a checkpoint, check it, or write its model anew",
     .details =
         "PATH is a checkpoint (the folder of a step), a folder of checkpoints, of which the newest counts, or a "
         "safetensors file (docs/training/checkpoints.md). `inspect` prints the step, the files and the "
         "tensors. `verify` reads all bytes, compares each tensor with its CRC-32C, and names the first one "
         "that is damaged. `consolidate` writes the model into FOLDER, which must not exist, as one safetensors file "
         "or "
         "as files of --max-size with an index, and compares the sums on the way. `convert` does it with another type "
         "of floating tensors or other names. Exits with 0 if nothing is damaged, 1 if something is, 2 if a path or a "
         "flag is wrong, 125 if FOLDER cannot be written.",
     .choices = "inspect,verify,consolidate,convert",
     .flags = kCkptFlags},
    {.id = CommandId::estimate,
     .name = "estimate",
     .arguments = "PATH [flags]",
     .help = "estimate the memory of a rank under each strategy",
     .details =
         "PATH is a safetensors file, its index, or the folder of a model or of checkpoints: only headers are read. Or "
         "give --parameters. Prints what a rank keeps of parameters, gradients and the optimizer's state, and what is "
         "whole for a time (docs/training/sharding.md). Units are found by the numbers in names, as in layers.0, "
         "unless --units names them. --strategy asks for one strategy, with its keys. Exits with 0, with 1 if --memory "
         "is given and no strategy fits, with 2 if PATH or a flag "
         "is wrong.",
     .flags = kEstimateFlags},
    {.id = CommandId::preprocess,
     .name = "preprocess",
     .arguments = "--config FILE [flags]",
     .help = "build a job's data set in the cache, or find it there",
     .details =
         "The section `dataset` of FILE says what is read and what is done with it (docs/cache.md). `dtrain run "
         "--config` does the same before the job starts. Prints the key, the rows, the files and the folder. Jobs that "
         "want the same data set at once build it once. Exits with 0, with 2 if FILE or an input is wrong, with 124 if "
         "another job has built it for too long, with 125 if the cache cannot be written, with 127 if dtrain-data is "
         "not beside dtrain, and with that of the processor's script if it fails, such as 1.",
     .flags = kPreprocessFlags,
     .once = true},
    {.id = CommandId::cache,
     .name = "cache",
     .arguments = "ls|verify|gc|rm [KEY...] [flags]",
     .help = "list the data sets of a cache, check and remove them",
     .details = "`ls` lists the entries. `verify` reads all bytes of all entries, or of those named, and names the "
                "first file that is not what was written. `gc` removes what killed builds have left, and entries by "
                "--ttl and --max-size; never what a job reads or builds. `rm` removes entries. The beginning of a KEY "
                "is enough. Name the cache with --cache-dir or --config. Exits with 0, with 1 if `verify` finds "
                "damage, with 2 if a word is wrong, with 125 if the cache cannot be read or written, with 127 if "
                "dtrain-data is not beside dtrain.",
     .choices = "ls,verify,gc,rm",
     .flags = kCacheFlags,
     .once = true},
    {.id = CommandId::rendezvous,
     .name = "rendezvous",
     .arguments = "serve [flags]",
     .help = "serve the rendezvous of many jobs at one port",
     .details = "Jobs meet here with --rdzv-backend c10d and the address of this server as --rdzv-endpoint. Their "
                "--rdzv-id tells them apart, and the token decides who may come (docs/nodes.md). After SIGTERM, SIGINT "
                "or SIGHUP the server takes no new jobs, and ends with the last job. A second signal ends all jobs. "
                "Exits with 0 after a signal, 2 if a flag or the token is wrong, 125 if it cannot listen at its port.",
     .choices = "serve",
     .flags = kRendezvousFlags,
     .once = true},
    {.id = CommandId::doctor,
     .name = "doctor",
     .arguments = "[--preflight]",
     .help = "check what this machine can do, and say how to fix it",
     .details =
         "Checks what this machine can do for a job: how dtrain can hold workers together, cores, memory, "
         "limits, shared memory, the loopback network, ports, GPUs, Python and torch. For each problem it says "
         "what to do. If a variable says where the nodes meet, it looks whether the name is known and the port free. "
         "Exits "
         "with 1 if something that dtrain needs is missing, else with 0. With --preflight, for an init container: "
         "0 if all is well, 10 with a warning, 20 if a job may run here later, 30 if it cannot.",
     .flags = kDoctorFlags},
    {.id = CommandId::env,
     .name = "env",
     .arguments = "[--json]",
     .help = "describe this machine for a bug report, without secrets",
     .details = "Prints version and build of dtrain, kernel, cores, memory, limits, GPUs, Python, torch, and the "
                "variables that matter to a job. Leaves out the values of variables with TOKEN, SECRET, KEY, PASSWORD "
                "and the like in their names, and users in URLs.",
     .flags = kEnvFlags,
     .once = true},
    {.id = CommandId::token,
     .name = "token",
     .arguments = "[--new|--code|--join] [--file FILE]",
     .help = "make the token that a job's nodes share, or say where it is",
     .details =
         "Whoever has the token of a job across hosts can join the job (docs/security.md). Prints where the token is, "
         "and its fingerprint. Tokens with the same fingerprint are the same. The token itself stays in its file.",
     .flags = kTokenFlags,
     .once = true},
    {.id = CommandId::completion,
     .name = "completion",
     .arguments = "bash|zsh|fish",
     .help = "print completions for a shell",
     .details = "`make install` puts them where the shells look. For one session only: `source <(dtrain completion "
                "bash)` in bash, and in zsh after compinit; `dtrain completion fish | source` in fish.",
     .choices = "bash,zsh,fish",
     .once = true},
    {.id = CommandId::install_torchrun,
     .name = "install-torchrun",
     .arguments = "[DIR]",
     .help = "make a link named torchrun to this dtrain",
     .details = "Called by the name torchrun, dtrain has torchrun's flags and defaults (docs/migrating.md). The link "
                "is made in DIR, or in the folder of this dtrain. It never replaces a file. `rm` removes it.",
     .once = true},
    {.id = CommandId::version, .name = "version", .help = "show version, compiler and build", .once = true},
    {.id = CommandId::help,
     .name = "help",
     .arguments = "[FLAG|COMMAND|TOPIC]",
     .help = "show this help, or help on a flag, command or topic",
     .details = "The topics: exit-codes, environment, workers. `dtrain help run` lists all flags of run."},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

const Command* find_command(std::string_view name) {
  for (const Command& row : kCommands)
    if (row.name == name) return &row;
  return nullptr;
}

std::string synopsis(const CommandFlag& row) {
  std::string out = row.letter != 0 ? fmt::format("-{}, --{}", row.letter, row.name) : fmt::format("--{}", row.name);
  return row.value.empty() ? out : fmt::format("{} {}", out, row.value);
}

Error unknown_flag(const Command& command, const std::string& word) {
  const std::string typed = printable(word.substr(0, word.find('=')));
  if (command.flags.empty())
    return usage_error(fmt::format("unknown flag {}; dtrain {} takes none", typed, command.name));
  std::vector<std::string> names;
  for (const CommandFlag& row : command.flags) names.push_back(fmt::format("--{}", row.name));
  const std::string near = closest(word.substr(0, word.find('=')), names);
  return usage_error(near.empty() ? fmt::format("unknown flag {}; `dtrain help {}` lists them", typed, command.name)
                                  : fmt::format("unknown flag {}; did you mean {}?", typed, near));
}

std::vector<std::string> help_words() {
  std::vector<std::string> words;
  for (const Command& row : kCommands) words.emplace_back(row.name);
  for (const Topic& topic : topics()) words.emplace_back(topic.name);
  for (const Flag& row : flags()) {
    words.emplace_back(row.name);
    if (!row.alias.empty()) words.emplace_back(row.alias);
  }
  return words;
}

}  // namespace dtrain::cli
