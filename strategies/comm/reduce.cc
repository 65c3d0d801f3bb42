// The reduction kernels; see reduce.h. Work goes in blocks small enough to keep the accumulators in the first cache.
#include "strategies/comm/reduce.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace dtrain {
namespace {

constexpr std::size_t kBlock = 1024;  // elements

template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>, float, T>;

struct Sum {
  template <class A>
  static A apply(A a, A b) {
    // Through unsigned: signed overflow is undefined, wrapping is what every other library does.
    if constexpr (std::is_integral_v<A>) {
      return static_cast<A>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    } else {
      return a + b;
    }
  }
};

struct Product {
  template <class A>
  static A apply(A a, A b) {
    if constexpr (std::is_integral_v<A>) {
      return static_cast<A>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    } else {
      return a * b;
    }
  }
};

// b != b holds for a NaN alone; where a is one, both comparisons are false and it stays.
struct Min {
  template <class A>
  static A apply(A a, A b) {
    return (b < a || b != b) ? b : a;
  }
};

struct Max {
  template <class A>
  static A apply(A a, A b) {
    return (a < b || b != b) ? b : a;
  }
};

template <class T, class Op>
void reduce_blocks(const std::vector<const std::byte*>& sources, std::byte* out, std::size_t count, bool average) {
  using A = Accumulator<T>;
  A sum[kBlock];
  T input[kBlock];
  const A ranks = static_cast<A>(sources.size());
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t n = std::min(kBlock, count - begin);
    for (std::size_t s = 0; s < sources.size(); ++s) {
      std::memcpy(input, sources[s] + begin * sizeof(T), n * sizeof(T));
      if (s == 0) {
        for (std::size_t i = 0; i < n; ++i) sum[i] = static_cast<A>(input[i]);
      } else {
        for (std::size_t i = 0; i < n; ++i) sum[i] = Op::apply(sum[i], static_cast<A>(input[i]));
      }
    }
    if (average) {
      for (std::size_t i = 0; i < n; ++i) sum[i] = static_cast<A>(sum[i] / ranks);
    }
    for (std::size_t i = 0; i < n; ++i) input[i] = static_cast<T>(sum[i]);
    std::memcpy(out + begin * sizeof(T), input, n * sizeof(T));
  }
}

template <class T>
void reduce_typed(Reduction reduction, const std::vector<const std::byte*>& sources, std::byte* out,
                  std::size_t count) {
  switch (reduction) {
    case Reduction::sum:
      return reduce_blocks<T, Sum>(sources, out, count, false);
    case Reduction::avg:
      return reduce_blocks<T, Sum>(sources, out, count, true);
    case Reduction::product:
      return reduce_blocks<T, Product>(sources, out, count, false);
    case Reduction::min:
      return reduce_blocks<T, Min>(sources, out, count, false);
    case Reduction::max:
      return reduce_blocks<T, Max>(sources, out, count, false);
  }
}

Reduction as_logical(Reduction reduction) {
  return reduction == Reduction::product || reduction == Reduction::min ? Reduction::min : Reduction::max;
}

}  // namespace

void reduce_in_order(ElementType type, Reduction reduction, const std::vector<const std::byte*>& sources,
                     std::byte* out, std::size_t count) {
  switch (type) {
    case ElementType::f64:
      return reduce_typed<double>(reduction, sources, out, count);
    case ElementType::f32:
      return reduce_typed<float>(reduction, sources, out, count);
    case ElementType::f16:
      return reduce_typed<c10::Half>(reduction, sources, out, count);
    case ElementType::bf16:
      return reduce_typed<c10::BFloat16>(reduction, sources, out, count);
    case ElementType::i64:
      return reduce_typed<std::int64_t>(reduction, sources, out, count);
    case ElementType::i32:
      return reduce_typed<std::int32_t>(reduction, sources, out, count);
    case ElementType::i16:
      return reduce_typed<std::int16_t>(reduction, sources, out, count);
    case ElementType::i8:
      return reduce_typed<std::int8_t>(reduction, sources, out, count);
    case ElementType::u8:
      return reduce_typed<std::uint8_t>(reduction, sources, out, count);
    case ElementType::boolean:
      return reduce_typed<std::uint8_t>(as_logical(reduction), sources, out, count);
  }
}

}  // namespace dtrain
