// LAMB; see Lamb in include/dtrain/optimizer.h. It reads everything twice, so that it needs no memory for the update.
#include <algorithm>
#include <cmath>

#include "strategies/optim/whole.h"

namespace dtrain {
namespace {

constexpr std::int64_t kLambPieceOnGpu = 4 * 1024 * 1024;

struct LambPiece {
  at::Tensor values, exp_avg, exp_avg_sq;  // copies in float32, or the tensors themselves
};

// The update before it is scaled.
at::Tensor direction(const Lamb& lamb, const LambPart& one, const LambPiece& piece) {
  const auto step = static_cast<double>(one.step);
  const double first = 1 - std::pow(lamb.betas.first, step), second = 1 - std::pow(lamb.betas.second, step);
  auto update = piece.exp_avg_sq.div(second).sqrt_().add_(lamb.eps);
  update = at::div(piece.exp_avg, update).div_(first);
  return one.weight_decay == 0 ? update : update.add_(piece.values, one.weight_decay);
}

template <class Do>
void in_pieces(const LambPart& one, Do&& act) {
  const auto count = one.part.values.numel();
  const auto piece = one.part.values.is_cpu() ? kLambPiece : kLambPieceOnGpu;
  for (std::int64_t begin = 0; begin < count; begin += piece) act(begin, std::min(piece, count - begin));
}

LambPiece piece_of(const LambPart& one, std::int64_t begin, std::int64_t count) {
  const auto type = one.part.values.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {one.part.values.narrow(0, begin, count).to(type), one.part.states[0].narrow(0, begin, count).to(type),
          one.part.states[1].narrow(0, begin, count).to(type)};
}

at::Tensor square_sum(const at::Tensor& tensor) { return tensor.square().sum(at::kDouble); }

// The new averages of the gradient, and into `norms` the squares of the values and of the update.
void average(const Lamb& lamb, const LambPart& one, const at::Tensor& norms) {
  in_pieces(one, [&](std::int64_t begin, std::int64_t count) {
    const LambPiece piece = piece_of(one, begin, count);
    Part part = one.part;
    part.gradient = part.gradient.narrow(0, begin, count);
    const auto gradient = scaled_gradient(part, piece.values.scalar_type());
    piece.exp_avg.mul_(lamb.betas.first).add_(gradient, 1 - lamb.betas.first);
    piece.exp_avg_sq.mul_(lamb.betas.second).addcmul_(gradient, gradient, 1 - lamb.betas.second);
    norms.select(0, 0).add_(square_sum(piece.values));
    norms.select(0, 1).add_(square_sum(direction(lamb, one, piece)));
    const auto first = one.part.first_element + begin;
    for (std::size_t i = 0; i < 2; ++i) {
      const auto& from = i == 0 ? piece.exp_avg : piece.exp_avg_sq;
      const auto to = one.part.states[i].narrow(0, begin, count);
      if (to.scalar_type() != from.scalar_type()) store_state(to, from, one.part.random + i, first);
    }
  });
}

}  // namespace

void update_by_lamb(const Lamb& lamb, const LambWalk& walk, std::int64_t parameters, const at::TensorOptions& options,
                    const SumOverRanks& sum) {
  const auto norms = at::zeros({parameters, 2}, options.dtype(at::kDouble));
  walk(true, [&](const LambPart& one) { average(lamb, one, norms[one.parameter]); });
  if (sum) sum(norms);
  const auto roots = norms.sqrt();
  const auto of_values = roots.select(1, 0), of_updates = roots.select(1, 1);
  const auto scales = at::where(of_values.gt(0).logical_and_(of_updates.gt(0)), of_values / of_updates, 1.0);
  walk(false, [&](const LambPart& one) {
    in_pieces(one, [&](std::int64_t begin, std::int64_t count) {
      const LambPiece piece = piece_of(one, begin, count);
      const auto update = direction(lamb, one, piece).mul_(scales[one.parameter] * one.lr);
      piece.values.sub_(update);
      const auto to = one.part.values.narrow(0, begin, count);
      if (to.scalar_type() != piece.values.scalar_type()) to.copy_(piece.values);
    });
  });
}

}  // namespace dtrain
