#pragma once
// How hvd::Context (horovod.h) works: Horovod's environment variables. Pure, no torch.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "dtrain/worker_env.h"

namespace dtrain::hvd {

// Those of rank 0 hold on all ranks.
struct Settings {
  // HOROVOD_FUSION_THRESHOLD: at most so many bytes go through one collective together. 0: each tensor alone.
  std::int64_t fusion_threshold = 128LL * 1024 * 1024;
  // HOROVOD_CYCLE_TIME, in milliseconds: between two looks at what is ready. Longer: fewer and larger collectives.
  std::chrono::microseconds cycle_time{1000};
  // HOROVOD_CACHE_CAPACITY: tensors that are known by a bit after their first reduction.
  std::int64_t cache_capacity = 1024;
  // HOROVOD_TIMELINE: rank 0 writes a trace of each tensor there, for chrome://tracing; that of a group beside it, with
  // the name of the context's process group after the file's. Empty: none.
  std::string timeline;
  // HOROVOD_STALL_CHECK_TIME_SECONDS, HOROVOD_STALL_CHECK_DISABLE: rank 0 says on standard error which ranks have not
  // submitted a tensor that others have, after so long. 0: never.
  std::chrono::milliseconds stall_warning{60'000};
  // HOROVOD_STALL_SHUTDOWN_TIME_SECONDS: such a tensor is an error on all ranks. 0: never, and a step may wait for
  // ever. Must exceed the longest time that one rank works while the others wait.
  std::chrono::milliseconds stall_failure{1'800'000};
  // For each collective. The background threads always answer, whatever their programs do, so only a process that is
  // stopped or a network that is down takes so long.
  std::chrono::milliseconds collective_timeout{300'000};
};

// An empty variable counts as unset. Throws ConfigError.
Settings parse_settings(const EnvLookup& lookup);

// A line that names those of Horovod's other variables that are set: they do nothing here. None: none is.
std::optional<std::string> without_effect(const EnvLookup& lookup);

}  // namespace dtrain::hvd
