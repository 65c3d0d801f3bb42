#pragma once
// What a collective checks of its tensors on the caller's thread, so that a mistake throws there and reaches no other
// rank. All throw c10::Error with a line that says what is taken instead.
#include <vector>

#include "strategies/comm/element.h"
#include "strategies/torch/pch.h"

namespace dtrain {

// Of a tensor that is reduced.
ElementType element_type(const at::Tensor& tensor);
Reduction reduction_of(const c10d::ReduceOp& op, const at::Tensor& tensor);

void check_dense_cpu(const at::Tensor& tensor);
// Dense, and no two of its elements share memory.
void check_writable(const at::Tensor& tensor);
// Another tensor object with the same memory and no history. What the progress thread holds must be such ones: to let
// go of a caller's own tensor may mean to let go of its Python object, for which it would wait for Python's lock.
at::Tensor share(const at::Tensor& tensor);
std::vector<at::Tensor> share(const std::vector<at::Tensor>& tensors);
// The one tensor of the list, shared.
at::Tensor only(const std::vector<at::Tensor>& tensors, const char* op);
at::Tensor only_writable(const std::vector<at::Tensor>& tensors, const char* op);

// to = from, which no gradient follows: what gathers and scatters do in a world of one rank.
void copy_alone(const at::Tensor& to, const at::Tensor& from);

}  // namespace dtrain
