#include "cli/ckpt/ckpt_numbers.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace dtrain::cli {
namespace {

// A type of two bytes: a sign, an exponent of so many bits, and the mantissa.
struct NarrowFloat {
  int exponent_bits, mantissa_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint64_t infinity() const { return ((std::uint64_t{1} << exponent_bits) - 1) << mantissa_bits; }
};
constexpr NarrowFloat kHalf{5, 10}, kBrain{8, 7};

constexpr int kMantissa = 52, kBias = 1023;  // of a double
constexpr std::uint64_t kMantissaMask = (std::uint64_t{1} << kMantissa) - 1;

double widened(std::uint16_t bits, const NarrowFloat& type) {
  const std::uint64_t sign = std::uint64_t{bits} >> 15 << 63;
  const std::uint64_t rest = bits & 0x7FFFU;
  const std::uint64_t mantissa = rest & ((std::uint64_t{1} << type.mantissa_bits) - 1);
  const auto exponent = static_cast<int>(rest >> type.mantissa_bits);
  const std::uint64_t shifted = mantissa << (kMantissa - type.mantissa_bits);
  if (rest >= type.infinity()) return std::bit_cast<double>(sign | std::uint64_t{0x7FF} << kMantissa | shifted);
  if (exponent == 0) {
    const int least = 1 - type.bias() - type.mantissa_bits;  // the smallest number is 2 to this
    const auto unit = std::bit_cast<double>(static_cast<std::uint64_t>(least + kBias) << kMantissa);
    const double value = static_cast<double>(mantissa) * unit;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<double>(sign | static_cast<std::uint64_t>(exponent - type.bias() + kBias) << kMantissa |
                               shifted);
}

std::uint16_t narrowed(double value, const NarrowFloat& type) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t sign = bits >> 63 << 15, mantissa = bits & kMantissaMask;
  const int exponent = static_cast<int>(bits >> kMantissa & 0x7FFU) - kBias;
  const std::uint64_t quiet = std::uint64_t{1} << (type.mantissa_bits - 1);
  if (std::isnan(value))
    return static_cast<std::uint16_t>(sign | type.infinity() | quiet | mantissa >> (kMantissa - type.mantissa_bits));
  const int lowest = 1 - type.bias();
  const bool small = exponent < lowest;
  const int dropped = kMantissa - type.mantissa_bits + (small ? lowest - exponent : 0);
  if (std::isinf(value) || exponent > type.bias()) return static_cast<std::uint16_t>(sign | type.infinity());
  if (dropped > kMantissa + 1) return static_cast<std::uint16_t>(sign);  // below half of the smallest number
  const std::uint64_t whole = mantissa | std::uint64_t{1} << kMantissa;
  const std::uint64_t half = std::uint64_t{1} << (dropped - 1), rest = whole & (2 * half - 1);
  std::uint64_t kept = whole >> dropped;
  if (rest > half || (rest == half && (kept & 1U) != 0)) ++kept;
  // A carry goes into the exponent, up to infinity.
  if (!small) kept += static_cast<std::uint64_t>(exponent - lowest) << type.mantissa_bits;
  return static_cast<std::uint16_t>(sign | kept);
}

template <class T>
T element(std::string_view bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

double number_at(CkptFloat type, std::string_view bytes, std::size_t i) {
  switch (type) {
    case CkptFloat::f64:
      return element<double>(bytes, i);
    case CkptFloat::f32:
      return static_cast<double>(element<float>(bytes, i));
    case CkptFloat::f16:
      return widened(element<std::uint16_t>(bytes, i), kHalf);
    case CkptFloat::bf16:
      break;
  }
  return widened(element<std::uint16_t>(bytes, i), kBrain);
}

// Whether it is finite afterwards.
bool put_number(CkptFloat type, double value, char* at) {
  if (type == CkptFloat::f64) {
    std::memcpy(at, &value, sizeof value);
    return std::isfinite(value);
  }
  if (type == CkptFloat::f32) {
    const auto rounded = static_cast<float>(value);
    std::memcpy(at, &rounded, sizeof rounded);
    return std::isfinite(rounded);
  }
  const NarrowFloat& narrow = type == CkptFloat::f16 ? kHalf : kBrain;
  const std::uint16_t rounded = narrowed(value, narrow);
  std::memcpy(at, &rounded, sizeof rounded);
  return (rounded & 0x7FFFU) < narrow.infinity();
}

}  // namespace

std::optional<CkptFloat> ckpt_float(std::string_view type) {
  if (type == "F64") return CkptFloat::f64;
  if (type == "F32") return CkptFloat::f32;
  if (type == "F16") return CkptFloat::f16;
  if (type == "BF16") return CkptFloat::bf16;
  return std::nullopt;
}

std::size_t ckpt_float_bytes(CkptFloat type) {
  if (type == CkptFloat::f64) return 8;
  return type == CkptFloat::f32 ? 4 : 2;
}

std::uint64_t convert_elements(CkptFloat from, CkptFloat to, std::string_view in, std::string& out) {
  const std::size_t count = in.size() / ckpt_float_bytes(from), size = ckpt_float_bytes(to), before = out.size();
  out.resize(before + count * size);
  std::uint64_t overflows = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double value = number_at(from, in, i);
    if (!put_number(to, value, out.data() + before + i * size) && std::isfinite(value)) ++overflows;
  }
  return overflows;
}

}  // namespace dtrain::cli
