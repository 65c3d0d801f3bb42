#pragma once
// Updates that need whole parameters: LAMB's norms, and Muon's matrices.
#include "strategies/optim/elementwise.h"

namespace dtrain {

// A part that is one shard, and the number of its parameter among those that all ranks list.
struct LambPart {
  Part part;
  std::int64_t parameter = 0;
  double lr = 0;
  double weight_decay = 0;
  std::int64_t step = 1;
};

// Collective, if `sum` is one: also without parts.
void update_by_lamb(const Lamb& lamb, const std::vector<LambPart>& parts, std::int64_t parameters,
                    const at::TensorOptions& options, const SumOverRanks& sum);

// `part` is a whole matrix of this shape; its state is the momentum.
void update_by_muon(const Muon& muon, const Rates& rates, const Part& part, const std::vector<std::int64_t>& shape);

// The matrix of singular vectors U V' for the matrix U S V', about: its singular values are near 1. In bfloat16.
at::Tensor orthogonalised(const at::Tensor& matrix, const Muon& muon);

}  // namespace dtrain
