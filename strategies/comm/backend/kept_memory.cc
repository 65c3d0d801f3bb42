// See kept_memory.h.
#include "strategies/comm/backend/kept_memory.h"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <string>

#include "strategies/comm/base/env_flag.h"

namespace dtrain {

bool keeps_memory(const EnvLookup& env) {
  const auto flag = env_flag(env, "DTRAIN_KEEP_MEMORY", "1 (what a step frees is kept; default) or 0");
  if (flag) return *flag;
  struct Names {
    const char *variable, *tunable;
  };
  constexpr std::array kOfMalloc{Names{"MALLOC_TRIM_THRESHOLD_", "glibc.malloc.trim_threshold="},
                                 Names{"MALLOC_MMAP_THRESHOLD_", "glibc.malloc.mmap_threshold="},
                                 Names{"MALLOC_MMAP_MAX_", "glibc.malloc.mmap_max="},
                                 Names{"MALLOC_TOP_PAD_", "glibc.malloc.top_pad="}};
  const std::string tunables = env("GLIBC_TUNABLES").value_or("");
  return std::none_of(kOfMalloc.begin(), kOfMalloc.end(), [&](const Names& names) {
    return !env(names.variable).value_or("").empty() || tunables.find(names.tunable) != std::string::npos;
  });
}

void keep_freed_memory() {
  static const bool keeps = keeps_memory(process_env());
  if (!keeps) return;
#ifdef __GLIBC__
  // Before 2.35 no more than 32 MiB are taken. The second call alone would freeze the limit of the first where it is.
  const auto from_heap = [](std::size_t bytes) { return ::mallopt(M_MMAP_THRESHOLD, static_cast<int>(bytes)) == 1; };
  static const bool told = (from_heap(kKeptMemory) || from_heap(std::size_t{32} << 20)) &&
                           ::mallopt(M_TRIM_THRESHOLD, int{kKeptMemory}) == 1;
  static_cast<void>(told);
#endif
}

}  // namespace dtrain
