#pragma once
// Adasum of tensors over the ranks of a group.
#include <vector>

#include "strategies/torch/pch.h"

namespace dtrain::hvd {

// Of two gradients of one tensor: what they have in common once, the rest added. In their type.
at::Tensor adasum_of_two(const at::Tensor& a, const at::Tensor& b);

// Collective, in place: neighbours first, then pairs of pairs. `buffer` has one dimension and holds tensors of `sizes`
// elements, one after another. The number of ranks is a power of two.
void adasum(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const at::Tensor& buffer,
            const std::vector<std::int64_t>& sizes);

}  // namespace dtrain::hvd
