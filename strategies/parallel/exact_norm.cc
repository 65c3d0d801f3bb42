#include "strategies/parallel/exact_norm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace dtrain {
namespace {

constexpr std::int64_t kExactPiece = 1024 * 1024;  // elements that are looked at together
constexpr int kWholeBits = 62;                     // of a sum of whole numbers
constexpr int kLeastExponent = -1000;              // 2 to its negative is a number

// What a rank has. Each is a tensor of one element on the gradients' device.
struct Found {
  at::Tensor largest;  // in float64; NaN if there is one
  at::Tensor count;    // of elements that are not zero: padding depends on the ranks
};

// Each square is scaled by a power of two and split into two whole numbers, a high and a low one, so that the sum of so
// many cannot overflow.
struct Scale {
  double down;  // 2 to the negative exponent of the largest number
  double up;    // 2 to the bits of a whole number
};

// ---- in this CPU's memory: one pass without copies

// Calls look(pointer, count) for each gradient, with floats or doubles.
template <class Look>
void look_at_arrays(const std::vector<at::Tensor>& gradients, const Look& look) {
  for (const at::Tensor& each : gradients) {
    if (!each.defined()) continue;
    const at::Tensor numbers = each.to(each.scalar_type() == at::kDouble ? at::kDouble : at::kFloat).contiguous();
    if (numbers.scalar_type() == at::kDouble)
      look(numbers.const_data_ptr<double>(), numbers.numel());
    else
      look(numbers.const_data_ptr<float>(), numbers.numel());
  }
}

// A magnitude has the order of its bits, with NaN's above all.
template <class Float>
double largest_of(const Float* values, std::int64_t size, std::int64_t& count) {
  using Bits = std::conditional_t<sizeof(Float) == sizeof(std::uint64_t), std::uint64_t, std::uint32_t>;
  Bits most = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    const Bits magnitude = std::bit_cast<Bits>(values[i]) & (~Bits(0) >> 1);
    most = std::max(most, magnitude);
    count += magnitude != 0;
  }
  return std::bit_cast<Float>(most);
}

Found find_in_arrays(const std::vector<at::Tensor>& gradients) {
  double largest = 0;
  std::int64_t count = 0;
  look_at_arrays(gradients, [&](const auto* values, std::int64_t size) {
    const double here = largest_of(values, size, count);
    if (std::isnan(here) || here > largest) largest = here;
  });
  return {at::full({}, largest, at::kDouble), at::full({1}, count, at::kLong)};
}

at::Tensor sums_of_arrays(const std::vector<at::Tensor>& gradients, Scale scale) {
  std::int64_t high = 0, low = 0;
  look_at_arrays(gradients, [&](const auto* values, std::int64_t size) {
    for (std::int64_t i = 0; i < size; ++i) {
      const double small = static_cast<double>(values[i]) * scale.down;
      const double scaled = small * small * scale.up;
      const auto whole = static_cast<std::int64_t>(scaled);
      high += whole;
      low += static_cast<std::int64_t>((scaled - static_cast<double>(whole)) * scale.up);
    }
  });
  return at::tensor({high, low}, at::kLong);
}

// ---- elsewhere: the same by tensors, to the bit

template <class Look>
void look_at_pieces(const std::vector<at::Tensor>& gradients, const Look& look) {
  for (const at::Tensor& each : gradients) {
    if (!each.defined()) continue;
    const at::Tensor flat = each.reshape({-1});
    for (std::int64_t begin = 0; begin < flat.numel(); begin += kExactPiece)
      look(flat.narrow(0, begin, std::min(kExactPiece, flat.numel() - begin)).to(at::kDouble));
  }
}

Found find_in_tensors(const std::vector<at::Tensor>& gradients, at::Device device) {
  const at::TensorOptions numbers = at::TensorOptions(at::kDouble).device(device);
  Found found{at::zeros({}, numbers), at::zeros({1}, numbers.dtype(at::kLong))};
  look_at_pieces(gradients, [&](const at::Tensor& piece) {
    found.largest = at::maximum(found.largest, piece.abs().max());
    found.count += at::count_nonzero(piece);
  });
  return found;
}

at::Tensor sums_of_tensors(const std::vector<at::Tensor>& gradients, Scale scale, at::Device device) {
  at::Tensor sums = at::zeros({2}, at::TensorOptions(at::kLong).device(device));
  look_at_pieces(gradients, [&](const at::Tensor& piece) {
    const at::Tensor scaled = (piece * scale.down).square_() * scale.up;
    const at::Tensor high = scaled.floor(), low = ((scaled - high) * scale.up).floor();
    sums[0] += high.to(at::kLong).sum();
    sums[1] += low.to(at::kLong).sum();
  });
  return sums;
}

// ---- over all ranks

struct Range {
  double largest;
  double count;
};

Range range_of(const Found& found, const Group& sharing) {
  // A maximum over ranks may lose a NaN.
  const at::Tensor both = at::stack({found.largest, found.largest.isnan().to(at::kDouble)}).nan_to_num_(0.0, HUGE_VAL);
  sharing.all_reduce(both, c10d::ReduceOp::MAX);
  sharing.all_reduce(found.count);
  const at::Tensor all = both.cpu();
  const double number = all[0].item<double>();
  return {all[1].item<double>() > 0 ? std::nan("") : number, static_cast<double>(found.count.item<std::int64_t>())};
}

double exact_norm(const std::vector<at::Tensor>& gradients, const Group& sharing, at::Device device) {
  const bool in_arrays = device.is_cpu();
  const auto [largest, count] =
      range_of(in_arrays ? find_in_arrays(gradients) : find_in_tensors(gradients, device), sharing);
  if (largest == 0 || !std::isfinite(largest)) return largest;
  int exponent = 0, places = 0;
  std::frexp(largest, &exponent);
  std::frexp(count, &places);
  exponent = std::max(exponent, kLeastExponent);
  const int bits = kWholeBits - places;
  const Scale scale{std::ldexp(1.0, -exponent), std::ldexp(1.0, bits)};
  const at::Tensor sums = in_arrays ? sums_of_arrays(gradients, scale) : sums_of_tensors(gradients, scale, device);
  sharing.all_reduce(sums);
  const at::Tensor whole = sums.to(at::kDouble).cpu();
  const double squares = whole[0].item<double>() + std::ldexp(whole[1].item<double>(), -bits);
  return std::ldexp(std::sqrt(std::ldexp(squares, -bits)), exponent);
}

}  // namespace

at::Tensor exact_norm_of(const std::vector<at::Tensor>& gradients, const Group& sharing, at::Device device) {
  return at::full({}, exact_norm(gradients, sharing, device), at::kDouble);
}

}  // namespace dtrain
