// Clipping of gradients by a norm over all ranks; see include/dtrain/optimizer.h.
#include "strategies/optim/clip.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace dtrain {
namespace {

constexpr double kClipEpsilon = 1e-6;             // torch's
constexpr std::int64_t kClipPiece = 1024 * 1024;  // whose norm is taken at once, in the type of the gradient

at::Tensor norm_of_part(const at::Tensor& gradient, double order) {
  return at::linalg_vector_norm(gradient, order).to(at::kDouble);
}

// The norms of the parts of one gradient. A narrow type has too few bits for its own norm. The parts do not depend on
// the type, so that a gradient that was made wide has the same norm.
void add_norms(const at::Tensor& gradient, double order, std::vector<at::Tensor>& norms) {
  if (gradient.numel() == 0) return;
  const auto type = gradient.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto flat = gradient.reshape(-1);
  for (std::int64_t begin = 0; begin < flat.numel(); begin += kClipPiece)
    norms.push_back(norm_of_part(flat.narrow(0, begin, std::min(kClipPiece, flat.numel() - begin)).to(type), order));
}

at::Device device_of_gradients(const std::vector<at::Tensor>& gradients) {
  for (const at::Tensor& gradient : gradients) {
    if (gradient.defined()) return gradient.device();
  }
  return at::kCPU;
}

at::Tensor norms_of(const std::vector<at::Tensor>& gradients, double order) {
  std::vector<at::Tensor> norms{at::zeros({}, at::TensorOptions(at::kDouble).device(device_of_gradients(gradients)))};
  for (const at::Tensor& gradient : gradients) {
    if (gradient.defined()) add_norms(gradient, order, norms);
  }
  return at::stack(norms);
}

}  // namespace

void scale_down(const std::vector<at::Tensor>& gradients, const at::Tensor& factor) {
  if (!factor.defined()) return;
  for (const at::Tensor& gradient : gradients) {
    if (gradient.defined()) at::Tensor(gradient).mul_(factor);
  }
}

void require_clip_limit(const char* function, double limit) {
  if (!(limit > 0)) throw ConfigError(fmt::format("dtrain: {}: the limit is {}; choose one above 0", function, limit));
}

at::Tensor clip_factor(const at::Tensor& norm, double limit) {
  const at::Tensor factor = (norm + kClipEpsilon).reciprocal().mul_(limit).clamp_max_(1.0);
  return factor.is_cpu() && factor.item<double>() == 1.0 ? at::Tensor() : factor;
}

at::Tensor global_norm_of(const std::vector<at::Tensor>& gradients, const SumOverRanks& sum) {
  const auto squares = norms_of(gradients, 2).square().sum();
  if (sum) sum(squares);
  return squares.sqrt();
}

at::Tensor largest_of(const std::vector<at::Tensor>& gradients, const MaxOverRanks& max) {
  const auto norm = norms_of(gradients, std::numeric_limits<double>::infinity()).max();
  if (max) max(norm);
  return norm;
}

at::Tensor clip_by_global_norm(const std::vector<at::Tensor>& gradients, double max_norm, const SumOverRanks& sum) {
  const torch::NoGradGuard no_grad;
  require_clip_limit("clip_by_global_norm", max_norm);
  const auto norm = global_norm_of(gradients, sum);
  scale_down(gradients, clip_factor(norm, max_norm));
  return norm;
}

at::Tensor clip_by_largest(const std::vector<at::Tensor>& gradients, double max_value, const MaxOverRanks& max) {
  const torch::NoGradGuard no_grad;
  require_clip_limit("clip_by_largest", max_value);
  const auto norm = largest_of(gradients, max);
  scale_down(gradients, clip_factor(norm, max_value));
  return norm;
}

}  // namespace dtrain
