#include "strategies/shard/gradient_norm.h"

#include <fmt/format.h>

#include <cmath>

namespace dtrain {

at::Tensor clip_by_norm(const std::vector<at::Tensor>& gradients, double max_norm, double norm_type,
                        const Group* sharing) {
  const at::NoGradGuard no_grad;
  const bool largest = std::isinf(norm_type);
  if (!largest && norm_type != 2)
    throw ConfigError(fmt::format("dtrain: clip_grad_norm: norm_type {} must be 2 or infinity", norm_type));
  // In double: the parts of a sum that depends on the number of ranks then differ in bits that nobody sees.
  at::Tensor total;
  for (const at::Tensor& each : gradients) {
    if (!each.defined() || each.numel() == 0) continue;
    const at::Tensor its = at::linalg_vector_norm(each, norm_type, {}, false, {}).to(at::kDouble);
    const at::Tensor term = largest ? its : its * its;
    total = !total.defined() ? term : largest ? at::maximum(total, term) : total + term;
  }
  if (!total.defined()) {
    const auto device =
        gradients.empty() || !gradients.front().defined() ? at::Device(at::kCPU) : gradients.front().device();
    total = at::zeros({}, at::TensorOptions().dtype(at::kDouble).device(device));
  }
  if (sharing != nullptr) {
    at::Tensor row = total.reshape({1});
    sharing->all_reduce(row, largest ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM);
    total = row.reshape({});
  }
  const at::Tensor norm = largest ? total : total.sqrt();
  const at::Tensor factor = at::clamp_max(max_norm / (norm + 1e-6), 1.0);
  for (const at::Tensor& each : gradients) {
    if (each.defined() && each.numel() > 0) each.mul_(factor.to(each.scalar_type()));
  }
  return norm;
}

}  // namespace dtrain
