// Chooses the kernels; see reduce.h.
#include "strategies/comm/kernels/reduce.h"

#include <array>
#include <cstring>
#include <stdexcept>
#include <string>

#ifdef DTRAIN_X86_KERNELS
#include <cpuid.h>
#endif

namespace dtrain {
namespace {

constexpr std::array<ReduceVariant, 3> kVariants{{{"plain", reduce_plain},
#ifdef DTRAIN_X86_KERNELS
                                                  {"avx2", reduce_avx2},
                                                  {"avx512", reduce_avx512}
#endif
}};

#ifdef DTRAIN_X86_KERNELS
// The compilers' own question does not know this one everywhere.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

std::size_t count_variants() {
  std::size_t found = 1;
#ifdef DTRAIN_X86_KERNELS
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !has_f16c()) return found;
  ++found;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    ++found;
  }
#endif
  return found;
}

}  // namespace

std::span<const ReduceVariant> reduce_variants() {
  static const std::size_t found = count_variants();
  return {kVariants.data(), found};
}

void reduce_in_order(ElementType type, Reduction reduction, const std::vector<const std::byte*>& sources,
                     std::byte* out, std::size_t count, std::size_t average_over) {
  if (!is_defined(reduction, type)) {
    throw std::invalid_argument(std::string("dtrain: ") + name_of(reduction) + " is not defined for " + name_of(type));
  }
  if (sources.empty() || count == 0) return;
  reduce_variants().back().run({type, reduction, sources.data(), sources.size(), out, count, average_over});
}

}  // namespace dtrain
