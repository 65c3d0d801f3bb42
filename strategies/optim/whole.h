#pragma once
// Updates that need whole parameters: LAMB's norms, and Muon's matrices.
#include "strategies/optim/elementwise.h"

namespace dtrain {

// A part of one shard, and the number of its parameter among those that all ranks list.
struct LambPart {
  Part part;
  std::int64_t parameter = 0;
  double lr = 0;
  double weight_decay = 0;
  std::int64_t step = 1;
};

// Calls the function with each part, in the same order each time. A part that is not the last of its shard has a
// multiple of kLambPiece elements. `writes`: the function changes the state.
constexpr std::int64_t kLambPiece = 64 * 1024;  // fits the second cache, and hides what a call of ATen costs
using LambWalk = std::function<void(bool writes, const std::function<void(const LambPart& part)>& act)>;

// Collective, if `sum` is one: also without parts.
void update_by_lamb(const Lamb& lamb, const LambWalk& walk, std::int64_t parameters, const at::TensorOptions& options,
                    const SumOverRanks& sum);

// `part` is a whole matrix of this shape; its state is the momentum.
void update_by_muon(const Muon& muon, const Rates& rates, const Part& part, const std::vector<std::int64_t>& shape);

// The matrix of singular vectors U V' for the matrix U S V', about: its singular values are near 1. In bfloat16.
at::Tensor orthogonalised(const at::Tensor& matrix, const Muon& muon);

}  // namespace dtrain
