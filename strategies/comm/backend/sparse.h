#pragma once
// all_reduce of sparse tensors: the ranks tell each other where they have values, and reduce those as a dense tensor.
// So what overlaps is sent once, the kernels and their order are those of dense tensors, and every rank has the same.
#include "strategies/comm/groups/group.h"
#include "strategies/torch/pch.h"

namespace dtrain {

struct SparseCall {
  CommGroup& group;
  int rank;
  int ranks;
  CommGroup::Timeout timeout;
};

// Collective, of ranks with a COO tensor each, of one type, shape and number of sparse dimensions. Sum or average. It
// becomes coalesced. Throws CollectiveError: on every rank FailureKind::mismatched where the tensors do not fit.
void all_reduce_sparse(const SparseCall& call, const at::Tensor& tensor, Reduction reduction);

// What it is in a world of one rank.
void coalesce_alone(const at::Tensor& tensor);

}  // namespace dtrain
