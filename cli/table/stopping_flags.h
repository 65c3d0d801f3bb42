#pragma once
// Flags: signals, deadlines and containment.
#include "cli/table/flags.h"

namespace dtrain::cli {

inline constexpr Flag kStoppingFlags[] = {
    {.id = FlagId::shutdown_timeout,
     .group = Group::stopping,
     .name = "shutdown-timeout",
     .value = "SECONDS",
     .fallback = "30",
     .pet = "SHUTDOWN_TIMEOUT",
     .also = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT",
     .help = "time from a request to stop to SIGKILL",
     .details = "After Ctrl-C, or another signal in --signals-to-handle, the workers have this time to end by "
                "themselves. Fractions are allowed; 0 kills at once."},
    {.id = FlagId::failure_grace,
     .group = Group::stopping,
     .name = "failure-grace",
     .value = "SECONDS",
     .fallback = "5",
     .help = "time from a worker's failure to SIGKILL of others",
     .details = "The others get SIGTERM first. Fractions are allowed; 0 kills at once."},
    {.id = FlagId::signals_to_handle,
     .group = Group::stopping,
     .name = "signals-to-handle",
     .value = "SIGNALS",
     .fallback = "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
     .pet = "SIGNALS_TO_HANDLE",
     .help = "signals that stop the job",
     .details = "Names or numbers, separated by commas. SIG may be left out. dtrain passes the signal to the workers, "
                "and kills them after --shutdown-timeout."},
    {.id = FlagId::pass_signals,
     .group = Group::stopping,
     .name = "pass-signals",
     .value = "SIGNALS",
     .fallback = "USR1,USR2",
     .help = "signals passed to the workers; the job goes on",
     .details = "Names or numbers, separated by commas, or `none`. If --signals-to-handle names a default of this "
                "flag, that signal stops the job instead."},
    {.id = FlagId::contain,
     .group = Group::stopping,
     .name = "contain",
     .value = "LEVEL",
     .choices = "auto,cgroup,subreaper,pidns",
     .fallback = "auto",
     .help = "how dtrain holds workers: auto, cgroup, subreaper or pidns",
     .details = "This makes sure that no process of the job survives it. `auto` takes `cgroup` if a cgroup v2 folder "
                "is writable, else `subreaper`. A level that this machine does not support is an error. `dtrain "
                "doctor` shows the supported levels."},
    {.id = FlagId::requeue,
     .group = Group::stopping,
     .name = "requeue",
     .value = "SECONDS",
     .help = "SLURM: save this long before the time limit, and requeue",
     .details = "This long before the batch job's time is over, the workers get SIGUSR1, so that they save and exit. "
                "Those that are left get SIGTERM later. Unless all exit with 0, dtrain gives the job back to SLURM's "
                "queue. The next run has the same number, and SLURM_RESTART_COUNT is higher."},
};

}  // namespace dtrain::cli
