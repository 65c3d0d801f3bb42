#pragma once
// Flags: what is done instead of a job.
#include "cli/table/flags.h"

namespace dtrain::cli {

inline constexpr Flag kGeneralFlags[] = {
    {.id = FlagId::config,
     .group = Group::general,
     .name = "config",
     .value = "FILE",
     .help = "a YAML or JSON file with values of flags, or `backend:`",
     .details =
         "Keys are the names of flags, Ludwig's section `backend`, and the arguments of Spark's TorchDistributor. A "
         "flag or a variable overrides the file, and an unknown key is an error. Only this command reads the file: "
         "other nodes need not have it. Not for the name torchrun. See docs/backend.md."},
    {.id = FlagId::dry_run,
     .group = Group::general,
     .name = "dry-run",
     .help = "show what would run, with each setting's origin",
     .details = "Starts nothing, and exits with 0."},
    {.id = FlagId::print_config,
     .group = Group::general,
     .name = "print-config",
     .choices = "all,json,schema",
     .help = "show the chosen settings, with origins",
     .details =
         "An origin is a flag, a variable, or a line of the file of --config. Values have the syntax of the flags, "
         "and are not checked. `=all` shows the defaults too. `=json` is for programs. `=schema` prints the JSON "
         "schema of config files, for editors. Needs no PROGRAM, and exits with 0."},
    {.id = FlagId::print_completion,
     .group = Group::general,
     .name = "print-completion",
     .value = "SHELL",
     .choices = "bash,zsh,fish",
     .help = "print completions for a shell",
     .details = "The same as `dtrain completion SHELL`."},
    {.id = FlagId::help,
     .group = Group::general,
     .name = "help",
     .letter = 'h',
     .choices = "all",
     .help = "show the most common flags, or all",
     .details = "`dtrain help FLAG` explains one flag."},
    {.id = FlagId::version, .group = Group::general, .name = "version", .help = "show the version", .details = ""},
};

}  // namespace dtrain::cli
