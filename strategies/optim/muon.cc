// Muon; see Muon in include/dtrain/optimizer.h.
#include <algorithm>
#include <cmath>

#include "strategies/optim/whole.h"

namespace dtrain {
namespace {

double scale_for(MuonRate rate, const std::vector<std::int64_t>& shape) {
  const auto rows = static_cast<double>(shape[0]), columns = static_cast<double>(shape[1]);
  switch (rate) {
    case MuonRate::original:
      return std::sqrt(std::max(1.0, rows / columns));
    case MuonRate::match_rms_adamw:
      return 0.2 * std::sqrt(std::max(rows, columns));
    case MuonRate::spectral_unclamped:
      return std::sqrt(rows / columns);
  }
  return 1;
}

}  // namespace

at::Tensor orthogonalised(const at::Tensor& matrix, const Muon& muon) {
  const auto [a, b, c] = muon.ns_coefficients;
  const bool is_tall = matrix.size(0) > matrix.size(1);  // the products of a wide matrix are smaller
  auto x = matrix.to(at::kBFloat16, /*non_blocking=*/false, /*copy=*/true);
  if (is_tall) x = x.t();
  x.div_(x.norm().clamp_min(muon.eps));
  for (int i = 0; i < muon.ns_steps; ++i) {  // x becomes a x + (b p + c p p) x, with p = x x'
    const auto product = at::mm(x, x.t());
    const auto polynomial = at::addmm(product, product, product, b, c);
    x = at::addmm(x, polynomial, x, a, 1);
  }
  return is_tall ? x.t() : x;
}

void update_by_muon(const Muon& muon, const Rates& rates, const Part& part, const std::vector<std::int64_t>& shape) {
  const auto type = part.values.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const bool is_converted =
      part.states[0].scalar_type() != type && part.states[0].scalar_type() != part.values.scalar_type();
  const auto state_type = is_converted ? type : part.states[0].scalar_type();
  const auto gradient = scaled_gradient(part, state_type).view(shape);
  const auto momentum = part.states[0].view(shape).to(state_type);
  momentum.lerp_(gradient, 1 - muon.momentum);
  if (is_converted) store_state(part.states[0], momentum.view(-1), part.random, part.first_element);
  const auto update = orthogonalised(muon.nesterov ? gradient.lerp(momentum, muon.momentum) : momentum, muon);
  const auto values = part.values.view(shape);
  if (rates.weight_decay != 0) values.mul_(1 - rates.lr * rates.weight_decay);
  values.add_(update, -rates.lr * scale_for(muon.adjust_lr_fn, shape));
}

}  // namespace dtrain
