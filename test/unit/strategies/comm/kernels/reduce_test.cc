// The reduction kernels: every variant that this CPU has against the plain one, and that against sums made here one
// element at a time.
#include "strategies/comm/kernels/reduce.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <stdexcept>
#include <string>

#include "test/support/catch.h"

using namespace dtrain;

namespace {

constexpr std::array kTypes{ElementType::f64, ElementType::f32,  ElementType::f16,    ElementType::bf16,
                            ElementType::c64, ElementType::c128, ElementType::i64,    ElementType::i32,
                            ElementType::i16, ElementType::i8,   ElementType::u64,    ElementType::u32,
                            ElementType::u16, ElementType::u8,   ElementType::boolean};
constexpr std::array kReductions{Reduction::sum, Reduction::avg,  Reduction::product, Reduction::min,
                                 Reduction::max, Reduction::band, Reduction::bor,     Reduction::bxor};

using Bytes = std::vector<std::byte>;

// Any bits, so that NaN, infinities and subnormal numbers are among them; every other source is tame, so that they do
// not swallow all.
void fill(ElementType type, std::span<std::byte> bytes, unsigned seed) {
  std::mt19937_64 random(seed);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & (type == ElementType::boolean ? 1 : 0xFF));
  if (seed % 2 == 0) return;
  if (type == ElementType::f32 || type == ElementType::c64) {
    for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
      const float value = static_cast<float>(random() % 20'001) * 0.013F - 130.0F;
      std::memcpy(&bytes[i], &value, 4);
    }
  }
  if (type == ElementType::f16 || type == ElementType::bf16) {
    for (std::size_t i = 1; i < bytes.size(); i += 2) bytes[i] = static_cast<std::byte>((random() & 0x83U) | 0x3CU);
  }
}

// The sources at odd addresses, and room for the result at another.
struct Buffers {
  std::size_t bytes;
  std::vector<Bytes> memory;
  std::vector<const std::byte*> sources;
  Bytes result;

  Buffers(ElementType type, std::size_t ranks, std::size_t count, std::size_t shift)
      : bytes(count * size_of(type)), result(bytes + 64) {
    for (std::size_t r = 0; r < ranks; ++r) {
      memory.emplace_back(shift + bytes);
      fill(type, std::span(memory.back()).subspan(shift), static_cast<unsigned>(r + 1));
    }
    for (Bytes& source : memory) sources.push_back(source.data() + shift);
  }

  // And nothing before or behind the result is written.
  bool gives(const Bytes& right, const ReduceVariant& variant, ElementType type, Reduction reduction,
             std::size_t shift) {
    std::fill(result.begin(), result.end(), std::byte{0x5A});
    Bytes around = result;
    if (bytes > 0) std::memcpy(&around[shift], right.data(), bytes);
    variant.run({type, reduction, sources.data(), sources.size(), &result[shift], bytes / size_of(type)});
    return result == around;
  }
};

template <class T>
struct Pair {
  T re, im;
};

// NaN of one kind.
template <class T>
T settled(T value) {
  if constexpr (requires { value.re; }) {
    return {settled(value.re), settled(value.im)};
  } else if constexpr (std::is_integral_v<T>) {
    return value;
  } else {
    return value == value ? value : std::numeric_limits<T>::quiet_NaN();
  }
}

template <class A>
A combined(Reduction reduction, A a, A b) {
  if constexpr (requires { a.re; }) {
    if (reduction == Reduction::product) return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
    return {a.re + b.re, a.im + b.im};
  } else if constexpr (std::is_integral_v<A>) {
    const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
    if (reduction == Reduction::sum) return static_cast<A>(x + y);
    if (reduction == Reduction::product) return static_cast<A>(x * y);
    if (reduction == Reduction::band) return static_cast<A>(x & y);
    if (reduction == Reduction::bor) return static_cast<A>(x | y);
    if (reduction == Reduction::bxor) return static_cast<A>(x ^ y);
    return reduction == Reduction::min ? std::min(a, b) : std::max(a, b);
  } else {
    if (reduction == Reduction::product) return a * b;
    if (reduction == Reduction::min || reduction == Reduction::max) {
      if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<A>::quiet_NaN();
      return (reduction == Reduction::min ? b < a : a < b) ? b : a;
    }
    return a + b;
  }
}

template <class A>
A averaged(A sum, std::size_t ranks) {
  if constexpr (requires { sum.re; }) {
    return {averaged(sum.re, ranks), averaged(sum.im, ranks)};
  } else {
    return static_cast<A>(sum / static_cast<A>(ranks));
  }
}

template <class T, class A = T>
Bytes expected(Reduction reduction, const std::vector<const std::byte*>& sources, std::size_t bytes) {
  Bytes result(bytes);
  for (std::size_t at = 0; at < bytes; at += sizeof(T)) {
    const auto value = [&](const std::byte* source) {
      T element;
      std::memcpy(&element, source + at, sizeof(T));
      return static_cast<A>(element);
    };
    A sum = value(sources[0]);
    for (std::size_t r = 1; r < sources.size(); ++r) sum = combined(reduction, sum, value(sources[r]));
    if (reduction == Reduction::avg) sum = averaged(sum, sources.size());
    const T rounded = static_cast<T>(settled(sum));
    std::memcpy(result.data() + at, &rounded, sizeof(T));
  }
  return result;
}

Reduction as_bitwise(Reduction of_bools) {
  if (of_bools == Reduction::product || of_bools == Reduction::min) return Reduction::band;
  return of_bools == Reduction::sum || of_bools == Reduction::max ? Reduction::bor : of_bools;
}

Bytes expected(ElementType type, Reduction reduction, const std::vector<const std::byte*>& sources, std::size_t bytes) {
  switch (type) {
    case ElementType::f64:
      return expected<double>(reduction, sources, bytes);
    case ElementType::f32:
      return expected<float>(reduction, sources, bytes);
    case ElementType::f16:
      return expected<c10::Half, float>(reduction, sources, bytes);
    case ElementType::bf16:
      return expected<c10::BFloat16, float>(reduction, sources, bytes);
    case ElementType::c128:
      return expected<Pair<double>>(reduction, sources, bytes);
    case ElementType::c64:
      return expected<Pair<float>>(reduction, sources, bytes);
    case ElementType::i64:
      return expected<std::int64_t>(reduction, sources, bytes);
    case ElementType::i32:
      return expected<std::int32_t>(reduction, sources, bytes);
    case ElementType::i16:
      return expected<std::int16_t>(reduction, sources, bytes);
    case ElementType::i8:
      return expected<std::int8_t>(reduction, sources, bytes);
    case ElementType::u64:
      return expected<std::uint64_t>(reduction, sources, bytes);
    case ElementType::u32:
      return expected<std::uint32_t>(reduction, sources, bytes);
    case ElementType::u16:
      return expected<std::uint16_t>(reduction, sources, bytes);
    case ElementType::u8:
      return expected<std::uint8_t>(reduction, sources, bytes);
    case ElementType::boolean:
      return expected<std::uint8_t>(as_bitwise(reduction), sources, bytes);
  }
  return {};
}

template <class Check>
void for_all(Check check) {
  for (const ElementType type : kTypes) {
    for (const Reduction reduction : kReductions) {
      if (is_defined(reduction, type)) check(type, reduction);
    }
  }
}

// All 65536 values of a 16-bit type, twice, through one source and through an addition of nothing.
template <class T>
void check_all_halves(const ReduceVariant& variant, ElementType type) {
  std::vector<std::uint16_t> all(1U << 16), nothing(1U << 16, 0x8000), result(1U << 16);  // -0
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  const std::vector<const std::byte*> sources{reinterpret_cast<const std::byte*>(all.data()),
                                              reinterpret_cast<const std::byte*>(nothing.data())};
  for (const std::size_t ranks : {1UL, 2UL}) {
    variant.run({type, Reduction::sum, sources.data(), ranks, reinterpret_cast<std::byte*>(result.data()), 1U << 16});
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto value = static_cast<float>(std::bit_cast<T>(all[i]));
      const auto one_nan = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
      const auto bits = value == value ? all[i] : std::bit_cast<std::uint16_t>(one_nan);
      if (result[i] != bits) FAIL(variant.name << ' ' << name_of(type) << ' ' << i << " became " << result[i]);
    }
  }
}

}  // namespace

TEST_CASE("every variant of the reduction kernels gives the reference's bits") {
  REQUIRE(std::string(reduce_variants().front().name) == "plain");
  for (const std::size_t ranks : {1UL, 2UL, 3UL, 8UL, 9UL, 18UL}) {
    for (const std::size_t count : {0UL, 1UL, 2UL, 31UL, 64UL, 777UL, 4103UL}) {
      const std::size_t shift = (ranks + count) % 5;
      for_all([&](ElementType type, Reduction reduction) {
        Buffers buffers(type, ranks, count, shift);
        const Bytes right = expected(type, reduction, buffers.sources, buffers.bytes);
        for (const ReduceVariant& variant : reduce_variants()) {
          if (buffers.gives(right, variant, type, reduction, shift / 2)) continue;
          FAIL_CHECK(variant.name << ": " << name_of(reduction) << " of " << count << ' ' << name_of(type) << " from "
                                  << ranks << " sources");
        }
      });
    }
  }
}

TEST_CASE("a reduction may write over any of its sources") {
  for (const std::size_t ranks : {2UL, 4UL, 20UL}) {
    for (const std::size_t over : {std::size_t{0}, ranks / 2, ranks - 1}) {
      for_all([&](ElementType type, Reduction reduction) {
        Buffers buffers(type, ranks, 2500, 0);
        const Bytes right = expected(type, reduction, buffers.sources, buffers.bytes);
        for (const ReduceVariant& variant : reduce_variants()) {
          Bytes& out = buffers.memory[over];
          const Bytes before = out;
          variant.run({type, reduction, buffers.sources.data(), ranks, out.data(), 2500});
          if (out != right) FAIL_CHECK(variant.name << ": " << name_of(reduction) << ' ' << name_of(type));
          out = before;
        }
      });
    }
  }
}

TEST_CASE("float16 and bfloat16 pass through every variant unchanged, but for NaN") {
  for (const ReduceVariant& variant : reduce_variants()) {
    check_all_halves<c10::Half>(variant, ElementType::f16);
    check_all_halves<c10::BFloat16>(variant, ElementType::bf16);
  }
}

TEST_CASE("a NaN comes out as the same bits whichever NaN went in") {
  const std::array<std::uint32_t, 3> nans{0xFFC00000U, 0x7FC00001U, 0x7F812345U};
  const float one = 1;
  for (const std::uint32_t nan : nans) {
    for (const Reduction reduction :
         {Reduction::sum, Reduction::avg, Reduction::product, Reduction::min, Reduction::max}) {
      for (const bool first : {false, true}) {
        std::uint32_t out = 0;
        const auto* a = reinterpret_cast<const std::byte*>(&nan);
        const auto* b = reinterpret_cast<const std::byte*>(&one);
        reduce_in_order(ElementType::f32, reduction, {first ? a : b, first ? b : a}, reinterpret_cast<std::byte*>(&out),
                        1);
        CHECK(out == 0x7FC00000U);
      }
    }
  }
}

TEST_CASE("a reduction that means nothing for a type is refused") {
  const float value = 1;
  float out = 0;
  const auto reduce = [&] {
    reduce_in_order(ElementType::f32, Reduction::bxor, {reinterpret_cast<const std::byte*>(&value)},
                    reinterpret_cast<std::byte*>(&out), 1);
  };
  CHECK_THROWS_WITH(reduce(), "dtrain: bxor is not defined for float32");
  CHECK_FALSE(is_defined(Reduction::avg, ElementType::i32));
  CHECK_FALSE(is_defined(Reduction::avg, ElementType::boolean));
  CHECK_FALSE(is_defined(Reduction::min, ElementType::c64));
  CHECK_FALSE(is_defined(Reduction::band, ElementType::c128));
  CHECK(is_defined(Reduction::product, ElementType::c64));
  CHECK(is_defined(Reduction::band, ElementType::boolean));
}
