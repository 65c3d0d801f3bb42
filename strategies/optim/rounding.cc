// Rounding at random, of float32 to bfloat16: the upper half of the bits, after a random number was added to the lower
// half. On average the result is the number itself: Gupta et al., "Deep Learning with Limited Numerical Precision",
// ICML 2015. The random numbers are a hash of the element's number.
#include <bit>

#include "strategies/optim/elementwise.h"

namespace dtrain {
namespace {

constexpr std::uint32_t kSpread = 0x9E3779B1U;  // 2^32 over the golden ratio, made odd
constexpr std::uint32_t kFirstMix = 0x7FEB352DU;
constexpr std::uint32_t kSecondMix = 0x846CA68BU;
constexpr std::uint32_t kExponent = 0x7F800000U;

std::uint32_t hashed(std::uint32_t number) {
  number ^= number >> 16;
  number *= kFirstMix;
  number ^= number >> 15;
  number *= kSecondMix;
  return number ^ (number >> 16);
}

#if defined(__GNUC__) && !defined(__clang__)
#define DTRAIN_VECTORS __attribute__((optimize("O3")))  // g++ makes vectors of such a loop from O3 on
#else
#define DTRAIN_VECTORS
#endif

// The noise is a hash that is cheaper than hashed(): of a number that differs for each element, and its upper half
// alone is used. It is written out, because g++ keeps calls out of a function that has another level.
DTRAIN_VECTORS void round_on_cpu(std::uint16_t* to, const float* from, std::int64_t count, std::uint32_t start) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(from[i]);
    std::uint32_t number = start + static_cast<std::uint32_t>(i) * kSpread;
    number ^= number >> 16;
    number *= kFirstMix;
    // Infinities and NaN keep their bits.
    const std::uint32_t added = (bits & kExponent) == kExponent ? 0 : number >> 16;
    to[i] = static_cast<std::uint16_t>((bits + added) >> 16);
  }
}

at::Scalar as_int(std::uint32_t number) { return static_cast<std::int64_t>(std::bit_cast<std::int32_t>(number)); }

// `number >> 16` of unsigned numbers, of which ATen has only signed ones.
at::Tensor upper_half(const at::Tensor& number) { return number.bitwise_right_shift(16).bitwise_and_(0xFFFF); }

std::uint32_t start_of(std::uint64_t random, std::int64_t first_element) {
  const auto place = static_cast<std::uint64_t>(first_element);
  return hashed(static_cast<std::uint32_t>(random) ^ static_cast<std::uint32_t>(random >> 32) ^
                static_cast<std::uint32_t>(place >> 32)) +
         static_cast<std::uint32_t>(place) * kSpread;
}

}  // namespace

at::Tensor rounded_by_aten(const at::Tensor& from, std::uint64_t random, std::int64_t first_element) {
  auto number = at::arange(from.numel(), from.options().dtype(at::kInt)).mul_(as_int(kSpread));
  number.add_(as_int(start_of(random, first_element)));
  auto noise = upper_half(number.bitwise_xor_(upper_half(number)).mul_(as_int(kFirstMix)));
  const auto bits = from.view(at::kInt);
  noise.masked_fill_(bits.bitwise_and(as_int(kExponent)).eq(as_int(kExponent)), 0);
  return noise.add_(bits).bitwise_and_(as_int(0xFFFF0000U)).view(at::kFloat);
}

void store_state(const at::Tensor& to, const at::Tensor& from, std::uint64_t random, std::int64_t first_element) {
  if (to.scalar_type() != at::kBFloat16 || from.scalar_type() != at::kFloat) {
    to.copy_(from);
  } else if (to.is_cpu()) {
    round_on_cpu(static_cast<std::uint16_t*>(to.mutable_data_ptr()), from.const_data_ptr<float>(), from.numel(),
                 start_of(random, first_element));
  } else {
    to.copy_(rounded_by_aten(from, random, first_element));
  }
}

}  // namespace dtrain
