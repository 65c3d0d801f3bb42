#include "strategies/parallel/exact_norm.h"

#include <algorithm>
#include <cmath>

namespace dtrain {
namespace {

constexpr std::int64_t kExactPiece = 1024 * 1024;  // elements that are looked at together
constexpr int kWholeBits = 62;                     // of a sum of whole numbers
constexpr int kLeastExponent = -1000;              // 2 to its negative is a number

template <class Look>
void look_at_pieces(const std::vector<at::Tensor>& gradients, const Look& look) {
  for (const at::Tensor& each : gradients) {
    if (!each.defined()) continue;
    const at::Tensor flat = each.reshape({-1});
    for (std::int64_t begin = 0; begin < flat.numel(); begin += kExactPiece)
      look(flat.narrow(0, begin, std::min(kExactPiece, flat.numel() - begin)).to(at::kDouble));
  }
}

struct Range {
  double largest;
  double count;  // of elements that are not zero: padding depends on the ranks
};

Range range_of(const std::vector<at::Tensor>& gradients, const Group& sharing, at::Device device) {
  const at::TensorOptions numbers = at::TensorOptions(at::kDouble).device(device);
  at::Tensor largest = at::zeros({}, numbers), count = at::zeros({1}, numbers.dtype(at::kLong));
  look_at_pieces(gradients, [&](const at::Tensor& piece) {
    largest = at::maximum(largest, piece.abs().max());
    count += at::count_nonzero(piece);
  });
  // A maximum over ranks may lose a NaN.
  const at::Tensor both = at::stack({largest, largest.isnan().to(at::kDouble)}).nan_to_num_(0.0, HUGE_VAL);
  sharing.all_reduce(both, c10d::ReduceOp::MAX);
  sharing.all_reduce(count);
  const at::Tensor found = both.cpu();
  const double number = found[0].item<double>();
  return {found[1].item<double>() > 0 ? std::nan("") : number, static_cast<double>(count.item<std::int64_t>())};
}

double exact_norm(const std::vector<at::Tensor>& gradients, const Group& sharing, at::Device device) {
  const auto [largest, count] = range_of(gradients, sharing, device);
  if (largest == 0 || !std::isfinite(largest)) return largest;
  // Each square is scaled by a power of two and split into two whole numbers, a high and a low one, so that the sum of
  // so many cannot overflow.
  int exponent = 0, places = 0;
  std::frexp(largest, &exponent);
  std::frexp(count, &places);
  exponent = std::max(exponent, kLeastExponent);
  const int bits = kWholeBits - places;
  const at::Tensor sums = at::zeros({2}, at::TensorOptions(at::kLong).device(device));
  look_at_pieces(gradients, [&](const at::Tensor& piece) {
    const at::Tensor scaled = (piece * std::ldexp(1.0, -exponent)).square_() * std::ldexp(1.0, bits);
    const at::Tensor high = scaled.floor(), low = ((scaled - high) * std::ldexp(1.0, bits)).floor();
    sums[0] += high.to(at::kLong).sum();
    sums[1] += low.to(at::kLong).sum();
  });
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
