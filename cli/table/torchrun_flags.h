#pragma once
// Flags: those of torchrun that have no work to do here.
#include "cli/table/flags.h"

namespace dtrain::cli {

inline constexpr Flag kTorchrunFlags[] = {
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
     .choices = "spawn,fork,forkserver",
     .pet = "START_METHOD",
     .help = "no effect: workers are always executed afresh",
     .compat = Compat::ignored},
    {.id = FlagId::logs_specs,
     .group = Group::torchrun,
     .name = "logs-specs",
     .value = "NAME",
     .fallback = "default",
     .help = "only `default`: other names are plugins in Python",
     .compat = Compat::ignored},
    {.id = FlagId::use_env,
     .group = Group::torchrun,
     .name = "use-env",
     .help = "only for `dtrain launch`: do not pass --local-rank",
     .details = "`dtrain launch` is torch.distributed.launch: it puts --local-rank=N before the program's arguments "
                "unless --use-env is given. All other commands pass LOCAL_RANK only in the environment, so the flag "
                "changes nothing there.",
     .compat = Compat::ignored},
};

}  // namespace dtrain::cli
