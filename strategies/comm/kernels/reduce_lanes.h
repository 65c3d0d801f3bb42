#pragma once
// The types of the reduction kernels: how elements lie in memory and in a vector. Part of reduce_loops.h.
#include "strategies/comm/kernels/reduce_kernels.h"

#if DTRAIN_VECTOR_BYTES > 16
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace dtrain {
namespace {

constexpr std::size_t kVectorBytes = DTRAIN_VECTOR_BYTES;

// kCount elements of kWidth bytes each are a V in registers; Sum is what they are accumulated in.
template <class T>
struct Lanes {
  using Element = T;
  typedef T V __attribute__((vector_size(kVectorBytes)));
  using Sum = Lanes;
  static constexpr std::size_t kWidth = sizeof(T);
  static constexpr std::size_t kCount = kVectorBytes / sizeof(T);

  static V load(const std::byte* from) {
    V v;
    __builtin_memcpy(&v, from, sizeof(v));
    return v;
  }
  static void store(std::byte* to, V v) { __builtin_memcpy(to, &v, sizeof(v)); }
  // Before the result is stored.
  static V settle(V v) { return v; }
};

// Which NaN comes of two depends on the order of a commutative instruction's operands, and which one comes of
// inf - inf on the CPU: every NaN becomes the same.
template <class T, class Bits, Bits kNan>
struct Floats : Lanes<T> {
  using typename Lanes<T>::V;
  using Sum = Floats;
  static V settle(V v) { return v == v ? v : reinterpret_cast<V>(typename Lanes<Bits>::V{} + kNan); }
};

using F32 = Floats<float, std::uint32_t, 0x7FC00000U>;
using F64 = Floats<double, std::uint64_t, 0x7FF8000000000000U>;
using Word = Lanes<std::uint32_t>::V;                                         // the bits of an F32::V
typedef std::uint16_t Halves __attribute__((vector_size(kVectorBytes / 2)));  // as many of 16 bits

// extend and truncate move bits between 16 and 32; widen and narrow convert between float16 and float32, rounding to
// nearest even.
#if DTRAIN_VECTOR_BYTES == 64

inline Word extend(Halves halves) {
  return reinterpret_cast<Word>(_mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(halves)));
}
inline Halves truncate(Word word) {
  return reinterpret_cast<Halves>(_mm512_cvtepi32_epi16(reinterpret_cast<__m512i>(word)));
}
inline F32::V widen(Halves halves) { return _mm512_cvtph_ps(reinterpret_cast<__m256i>(halves)); }
inline Halves narrow(F32::V v) { return reinterpret_cast<Halves>(_mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT)); }

#elif DTRAIN_VECTOR_BYTES == 32

inline Word extend(Halves halves) {
  return reinterpret_cast<Word>(_mm256_cvtepu16_epi32(reinterpret_cast<__m128i>(halves)));
}
inline Halves truncate(Word word) {
  const auto bits = reinterpret_cast<__m256i>(word);
  return reinterpret_cast<Halves>(_mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1)));
}
inline F32::V widen(Halves halves) { return _mm256_cvtph_ps(reinterpret_cast<__m128i>(halves)); }
inline Halves narrow(F32::V v) { return reinterpret_cast<Halves>(_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT)); }

#elif defined(__aarch64__)

// gcc 12 makes lane by lane of a __builtin_convertvector of what it has just loaded.
inline Word extend(Halves halves) { return reinterpret_cast<Word>(vmovl_u16(reinterpret_cast<uint16x4_t>(halves))); }
inline Halves truncate(Word word) { return __builtin_convertvector(word, Halves); }
inline F32::V widen(Halves halves) {
  return reinterpret_cast<F32::V>(vcvt_f32_f16(reinterpret_cast<float16x4_t>(halves)));
}
inline Halves narrow(F32::V v) { return reinterpret_cast<Halves>(vcvt_f16_f32(reinterpret_cast<float32x4_t>(v))); }

#else

inline Word extend(Halves halves) { return __builtin_convertvector(halves, Word); }
inline Halves truncate(Word word) { return __builtin_convertvector(word, Halves); }

// By hand. No result hangs on a subnormal float32, so that a thread that flushes them gets the same bits.
inline F32::V widen(Halves halves) {
  typedef std::int32_t Ints __attribute__((vector_size(kVectorBytes)));
  const Word half = extend(halves);
  const Word magnitude = half & 0x7FFF;
  const Word normal = (magnitude << 13) + (112U << 23);  // 112: between the two biases
  const Word infinite = (magnitude << 13) + (224U << 23);
  const F32::V small = __builtin_convertvector(reinterpret_cast<Ints>(magnitude), F32::V) * 0x1p-24F;
  const Word finite = magnitude < 0x0400 ? reinterpret_cast<Word>(small) : normal;
  return reinterpret_cast<F32::V>((magnitude < 0x7C00 ? finite : infinite) | (half & 0x8000) << 16);
}

inline Halves narrow(F32::V v) {
  const Word bits = reinterpret_cast<Word>(v);
  const Word magnitude = bits & 0x7FFFFFFF;
  // From 2^16 on all is infinity. Rounding carries into the exponent where it must.
  const Word large = Word{} + 0x47800000;
  const Word bounded = magnitude < large ? magnitude : large;
  const Word normal = (bounded + 0x0FFF + ((bounded >> 13) & 1) - (112U << 23)) >> 13;
  // Below 2^-14: the last bit of a float32 near 0.5 is a float16's smallest step.
  const Word small = reinterpret_cast<Word>(reinterpret_cast<F32::V>(magnitude) + 0.5F) - 0x3F000000;
  const Word finite = magnitude < 0x38800000 ? small : normal;
  const Word nan = Word{} + 0x7E00;
  return truncate((magnitude > 0x7F800000 ? nan : finite) | (bits >> 16 & 0x8000));
}

#endif

struct F16 {
  using V = F32::V;
  using Sum = F32;
  static constexpr std::size_t kWidth = 2;
  static constexpr std::size_t kCount = F32::kCount;

  static V load(const std::byte* from) {
    Halves halves;
    __builtin_memcpy(&halves, from, sizeof(halves));
    return widen(halves);
  }
  static void store(std::byte* to, V v) {
    const Halves halves = narrow(v);
    __builtin_memcpy(to, &halves, sizeof(halves));
  }
};

struct Bf16 {
  using V = F32::V;
  using Sum = F32;
  static constexpr std::size_t kWidth = 2;
  static constexpr std::size_t kCount = F32::kCount;

  static V load(const std::byte* from) {
    Halves halves;
    __builtin_memcpy(&halves, from, sizeof(halves));
    return reinterpret_cast<V>(extend(halves) << 16);
  }
  // To nearest even; the settled NaN is far from overflowing.
  static void store(std::byte* to, V v) {
    Word bits = reinterpret_cast<Word>(v);
    bits += 0x7FFF + ((bits >> 16) & 1);
    const Halves halves = truncate(bits >> 16);
    __builtin_memcpy(to, &halves, sizeof(halves));
  }
};

// One number at a time: for products alone, which nobody is in a hurry for.
template <class Real>
struct Complex {
  struct V {
    Real re, im;
    friend V operator*(V a, V b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
  };
  using Sum = Complex;
  static constexpr std::size_t kWidth = sizeof(V);
  static constexpr std::size_t kCount = 1;

  static V load(const std::byte* from) {
    V v;
    __builtin_memcpy(&v, from, sizeof(v));
    return v;
  }
  static void store(std::byte* to, V v) { __builtin_memcpy(to, &v, sizeof(v)); }
  static Real settle(Real real) { return real == real ? real : static_cast<Real>(__builtin_nanf("")); }
  static V settle(V v) { return {settle(v.re), settle(v.im)}; }
};

}  // namespace
}  // namespace dtrain
