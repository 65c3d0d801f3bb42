#pragma once
// The settings of hvd::Context (horovod.h), from Horovod's environment variables. Pure, no torch.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "dtrain/worker_env.h"

namespace dtrain::hvd {

// The settings of rank 0 hold on all ranks.
struct Settings {
  // HOROVOD_FUSION_THRESHOLD: at most so many bytes of several tensors go through one collective together. 0: each
  // tensor goes alone.
  std::int64_t fusion_threshold = 128LL * 1024 * 1024;
  // HOROVOD_CYCLE_TIME, there in milliseconds: the time between two looks at which tensors are ready. With a longer
  // time there are fewer and larger collectives.
  std::chrono::microseconds cycle_time{1000};
  // HOROVOD_CACHE_CAPACITY: how many tensors need only one bit to be announced after their first reduction.
  std::int64_t cache_capacity = 1024;
  // HOROVOD_TIMELINE: the file in which rank 0 writes a trace of each tensor, for chrome://tracing. A context over a
  // group writes its own file beside it: the name of the context's process group is added to the file's name. Empty: no
  // trace.
  std::string timeline;
  // HOROVOD_STALL_CHECK_TIME_SECONDS, HOROVOD_STALL_CHECK_DISABLE: if some ranks have not submitted a tensor this long
  // after others did, rank 0 prints which ranks on standard error. 0: never.
  std::chrono::milliseconds stall_warning{60'000};
  // HOROVOD_STALL_SHUTDOWN_TIME_SECONDS: after this long, such a tensor is an error on all ranks. The time must be
  // longer than the longest time that one rank works while the others wait. 0: never; then a step may wait for ever.
  std::chrono::milliseconds stall_failure{1'800'000};
  // The timeout of each collective of the background threads. These threads always answer, whatever their programs do.
  // So only a process that is stopped, or a network that is down, takes so long.
  std::chrono::milliseconds collective_timeout{300'000};
};

// Reads the variables. An empty variable counts as unset. Throws ConfigError if a value makes no sense.
Settings parse_settings(const EnvLookup& lookup);

// A line that names Horovod's other variables that are set and have no effect here. None if no such variable is set.
std::optional<std::string> without_effect(const EnvLookup& lookup);

}  // namespace dtrain::hvd
