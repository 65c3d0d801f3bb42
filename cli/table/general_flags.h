#pragma once
// Flags: what is done instead of a job.
#include "cli/table/flags.h"

namespace dtrain::cli {

inline constexpr Flag kGeneralFlags[] = {
    {.id = FlagId::dry_run,
     .group = Group::general,
     .name = "dry-run",
     .help = "show what would run, with each setting's origin",
     .details = "Starts nothing, and exits with 0."},
    {.id = FlagId::print_config,
     .group = Group::general,
     .name = "print-config",
     .choices = "all,json",
     .help = "show the chosen settings, with origins",
     .details = "An origin is a flag or a variable. Values have the syntax of the flags, and are not checked. `=all` "
                "shows the defaults too. `=json` is for programs. Needs no PROGRAM, and exits with 0."},
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
