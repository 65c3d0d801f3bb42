#pragma once
// The loops of reduce_in_order. Included by reduce_plain.cc, reduce_avx2.cc and reduce_avx512.cc, which are compiled
// for different CPUs and say how wide a vector is there.
//
// Everything here is local to the including file and calls nothing but builtins. An inline function or a template of
// std would be emitted in each of those files under one name, of which the linker keeps any: a program might run the
// AVX-512 one on a CPU that has none. A test looks at the objects' symbols.
//
// Each element passes the same operations in the same order whatever the width, and no file may contract a product and
// a sum into one rounding (-ffp-contract=off): so all variants give the same bits.
#include "strategies/comm/kernels/reduce_lanes.h"

namespace dtrain {
namespace {

constexpr std::size_t kTogether = 4;       // vectors of a source read one after another
constexpr std::size_t kStreams = 8;        // sources read side by side; more would evict each other's cache lines
constexpr std::size_t kBlockBytes = 8192;  // of sums, where there are more sources

struct Add {
  template <class V>
  static V apply(V a, V b) {
    return a + b;
  }
};
struct Multiply {
  template <class V>
  static V apply(V a, V b) {
    return a * b;
  }
};
template <class T>
struct Mean : Add {
  typename T::Sum::V ranks;
};
// b != b holds for a NaN alone; where a is one, both comparisons are false and it stays.
struct Smaller {
  template <class V>
  static V apply(V a, V b) {
    return ((b < a) | (b != b)) ? b : a;
  }
};
struct Larger {
  template <class V>
  static V apply(V a, V b) {
    return ((a < b) | (b != b)) ? b : a;
  }
};
struct And {
  template <class V>
  static V apply(V a, V b) {
    return a & b;
  }
};
struct Or {
  template <class V>
  static V apply(V a, V b) {
    return a | b;
  }
};
struct Xor {
  template <class V>
  static V apply(V a, V b) {
    return a ^ b;
  }
};

// Parts of a vector, at the end of a buffer.
template <class L>
typename L::V load_part(const std::byte* from, std::size_t n) {
  std::byte room[L::kCount * L::kWidth] = {};
  __builtin_memcpy(room, from, n * L::kWidth);
  return L::load(room);
}
template <class L>
void store_part(std::byte* to, typename L::V v, std::size_t n) {
  std::byte room[L::kCount * L::kWidth];
  L::store(room, v);
  __builtin_memcpy(to, room, n * L::kWidth);
}

// One walk over `first`, which holds elements as From does, and over parts of the other sources, to `to`.
template <class T, class Op, class From = T, class To = T>
struct Walk {
  using V = typename T::V;
  const std::byte* first;
  const std::byte* const* others;
  std::size_t other_count;
  std::size_t skip;  // elements of the others
  std::byte* to;
  Op op;

  V finish(V v) const {
    if constexpr (requires { op.ranks; }) v = v / op.ranks;
    return T::Sum::settle(v);
  }

  template <std::size_t N>
  void vectors(std::size_t i) const {
    V sum[N];
#pragma GCC unroll 4
    for (std::size_t k = 0; k < N; ++k) sum[k] = From::load(first + (i + k * T::kCount) * From::kWidth);
    for (std::size_t s = 0; s < other_count; ++s) {
      const std::byte* other = others[s] + (skip + i) * T::kWidth;
#pragma GCC unroll 4
      for (std::size_t k = 0; k < N; ++k) sum[k] = Op::apply(sum[k], T::load(other + k * T::kCount * T::kWidth));
    }
#pragma GCC unroll 4
    for (std::size_t k = 0; k < N; ++k) To::store(to + (i + k * T::kCount) * To::kWidth, finish(sum[k]));
  }

  void part(std::size_t i, std::size_t n) const {
    V sum = load_part<From>(first + i * From::kWidth, n);
    for (std::size_t s = 0; s < other_count; ++s) {
      sum = Op::apply(sum, load_part<T>(others[s] + (skip + i) * T::kWidth, n));
    }
    store_part<To>(to + i * To::kWidth, finish(sum), n);
  }

  void over(std::size_t count) const {
    std::size_t i = 0;
    for (; count - i >= kTogether * T::kCount; i += kTogether * T::kCount) vectors<kTogether>(i);
    for (; count - i >= T::kCount; i += T::kCount) vectors<1>(i);
    if (i < count) part(i, count - i);
  }
};

// With more than kStreams sources, block by block: a walk over the first of them, one over each further kStreams. Only
// the last one writes to `out`, which may be one of the sources. `step` is `op` without the division.
template <class T, class Op, class Step = Op>
void reduce_with(const ReduceJob& job, std::size_t count, Op op = {}, Step step = {}) {
  const std::byte* const* sources = job.sources;
  if (job.ranks <= kStreams) return Walk<T, Op>{sources[0], sources + 1, job.ranks - 1, 0, job.out, op}.over(count);
  using Sum = typename T::Sum;
  constexpr std::size_t kBlock = kBlockBytes / Sum::kWidth;
  alignas(64) std::byte sums[kBlockBytes];
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t n = count - begin < kBlock ? count - begin : kBlock;
    Walk<T, Step, T, Sum>{sources[0] + begin * T::kWidth, sources + 1, kStreams - 1, begin, sums, step}.over(n);
    std::size_t next = kStreams;
    for (; job.ranks - next > kStreams; next += kStreams) {
      Walk<T, Step, Sum, Sum>{sums, sources + next, kStreams, begin, sums, step}.over(n);
    }
    Walk<T, Op, Sum, T>{sums, sources + next, job.ranks - next, begin, job.out + begin * T::kWidth, op}.over(n);
  }
}

template <class T>
void reduce_mean(const ReduceJob& job, std::size_t count) {
  const auto ranks = static_cast<typename T::Sum::Element>(job.average_over > 0 ? job.average_over : job.ranks);
  reduce_with<T, Mean<T>, Add>(job, count, {{}, typename T::V{} + ranks});
}

template <class T>
void reduce_floating(const ReduceJob& job) {
  switch (job.reduction) {
    case Reduction::product:
      return reduce_with<T, Multiply>(job, job.count);
    case Reduction::min:
      return reduce_with<T, Smaller>(job, job.count);
    case Reduction::max:
      return reduce_with<T, Larger>(job, job.count);
    case Reduction::avg:
      return reduce_mean<T>(job, job.count);
    default:
      return reduce_with<T, Add>(job, job.count);
  }
}

// A sum of complex numbers is that of twice as many reals.
template <class Real, class Pair>
void reduce_complex(const ReduceJob& job) {
  if (job.reduction == Reduction::product) return reduce_with<Pair, Multiply>(job, job.count);
  if (job.reduction == Reduction::avg) return reduce_mean<Real>(job, 2 * job.count);
  return reduce_with<Real, Add>(job, 2 * job.count);
}

// Unsigned numbers wrap; to the bits of signed ones that is the same.
template <class T, class Unsigned>
void reduce_integers(const ReduceJob& job) {
  switch (job.reduction) {
    case Reduction::product:
      return reduce_with<Lanes<Unsigned>, Multiply>(job, job.count);
    case Reduction::min:
      return reduce_with<Lanes<T>, Smaller>(job, job.count);
    case Reduction::max:
      return reduce_with<Lanes<T>, Larger>(job, job.count);
    case Reduction::band:
      return reduce_with<Lanes<Unsigned>, And>(job, job.count);
    case Reduction::bor:
      return reduce_with<Lanes<Unsigned>, Or>(job, job.count);
    case Reduction::bxor:
      return reduce_with<Lanes<Unsigned>, Xor>(job, job.count);
    default:
      return reduce_with<Lanes<Unsigned>, Add>(job, job.count);
  }
}

void reduce_bools(const ReduceJob& job) {
  switch (job.reduction) {
    case Reduction::product:
    case Reduction::min:
    case Reduction::band:
      return reduce_with<Lanes<std::uint8_t>, Smaller>(job, job.count);
    case Reduction::bxor:
      return reduce_with<Lanes<std::uint8_t>, Xor>(job, job.count);
    default:
      return reduce_with<Lanes<std::uint8_t>, Larger>(job, job.count);
  }
}

void reduce(const ReduceJob& job) {
  switch (job.type) {
    case ElementType::f64:
      return reduce_floating<F64>(job);
    case ElementType::f32:
      return reduce_floating<F32>(job);
    case ElementType::f16:
      return reduce_floating<F16>(job);
    case ElementType::bf16:
      return reduce_floating<Bf16>(job);
    case ElementType::c128:
      return reduce_complex<F64, Complex<double>>(job);
    case ElementType::c64:
      return reduce_complex<F32, Complex<float>>(job);
    case ElementType::i64:
      return reduce_integers<std::int64_t, std::uint64_t>(job);
    case ElementType::i32:
      return reduce_integers<std::int32_t, std::uint32_t>(job);
    case ElementType::i16:
      return reduce_integers<std::int16_t, std::uint16_t>(job);
    case ElementType::i8:
      return reduce_integers<std::int8_t, std::uint8_t>(job);
    case ElementType::u64:
      return reduce_integers<std::uint64_t, std::uint64_t>(job);
    case ElementType::u32:
      return reduce_integers<std::uint32_t, std::uint32_t>(job);
    case ElementType::u16:
      return reduce_integers<std::uint16_t, std::uint16_t>(job);
    case ElementType::u8:
      return reduce_integers<std::uint8_t, std::uint8_t>(job);
    case ElementType::boolean:
      return reduce_bools(job);
  }
}

}  // namespace
}  // namespace dtrain
