#pragma once
// What malloc does with memory that a training step frees: keeps it for the next step, instead of giving it back to the
// kernel and getting it anew, page by page (docs/adr/0614-memory-that-a-step-frees.md).
#include <cstddef>

#include "dtrain/worker_env.h"

namespace dtrain {

// A process keeps so much at the end of its heap, and a single block that is larger is given back.
constexpr std::size_t kKeptMemory = std::size_t{1} << 30;

// Whether it should be so: not where DTRAIN_KEEP_MEMORY is 0, or its user tunes glibc's malloc otherwise, by
// MALLOC_*_ or GLIBC_TUNABLES. Pure. Throws ConfigError where DTRAIN_KEEP_MEMORY makes no sense.
bool keeps_memory(const EnvLookup& env);

// Make it so in this process, once; what keeps_memory() says of the environment. Only glibc's malloc is told. Any
// thread.
void keep_freed_memory();

}  // namespace dtrain
