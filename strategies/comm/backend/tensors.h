#pragma once
// What a collective checks of its tensors on the caller's thread, so that a mistake throws there and reaches no other
// rank. All throw c10::Error with a line that says what is taken instead.
#include <optional>
#include <string>
#include <vector>

#include "strategies/comm/kernels/element.h"
#include "strategies/torch/pch.h"

namespace dtrain {

// How our reductions take it, if they do.
std::optional<ElementType> element_of(at::ScalarType type);
// Of a tensor that is reduced.
ElementType element_type(const at::Tensor& tensor);
Reduction reduction_of(const c10d::ReduceOp& op, const at::Tensor& tensor);

// For people: "Float [2, 3]". By hand: format() takes half as long as a whole message.
std::string type_and_shape(const at::Tensor& tensor);

void check_dense_cpu(const at::Tensor& tensor);
// A COO tensor.
void check_sparse_cpu(const at::Tensor& tensor);
// Dense, and no two of its elements share memory.
void check_writable(const at::Tensor& tensor);
// Another tensor object with the same memory and no history. What the progress thread holds must be such ones: to let
// go of a caller's own tensor may mean to let go of its Python object, for which it would wait for Python's lock.
// Of a sparse one there is no such: it is itself, as its memory changes with its values.
at::Tensor share(const at::Tensor& tensor);
std::vector<at::Tensor> share(const std::vector<at::Tensor>& tensors);
// The one tensor of the list, shared.
at::Tensor only(const std::vector<at::Tensor>& tensors, const char* op);
at::Tensor only_writable(const std::vector<at::Tensor>& tensors, const char* op);

inline std::byte* bytes_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

// Run `action` on contiguous memory with the tensor's values and leave its result in the tensor.
template <class Action>
void in_place(const at::Tensor& tensor, Action action) {
  if (tensor.is_contiguous()) return action(tensor);
  const at::Tensor staged = tensor.contiguous();
  action(staged);
  at::Tensor(tensor).copy_(staged);
}

// Run `action` on contiguous memory for the tensor, and leave what it wrote there in the tensor.
template <class Action>
void into_place(const at::Tensor& tensor, Action action) {
  if (tensor.is_contiguous()) return action(tensor);
  const at::Tensor staged = at::empty_like(tensor, at::MemoryFormat::Contiguous);
  action(staged);
  at::Tensor(tensor).copy_(staged);
}

// Run `action` on contiguous memory with the values of each of `parts`.
template <class Action>
void from_places(const std::vector<at::Tensor>& parts, Action action) {
  std::vector<at::Tensor> staged;
  std::vector<const std::byte*> places;
  for (const at::Tensor& part : parts) {
    staged.push_back(part.contiguous());
    places.push_back(bytes_of(staged.back()));
  }
  action(places);
}

// Run `action` on contiguous memory for each of `parts`, and leave what it wrote there in them.
template <class Action>
void into_places(const std::vector<at::Tensor>& parts, Action action) {
  std::vector<at::Tensor> staged;
  std::vector<std::byte*> places;
  for (const at::Tensor& part : parts) {
    staged.push_back(part.is_contiguous() ? part : at::empty_like(part, at::MemoryFormat::Contiguous));
    places.push_back(bytes_of(staged.back()));
  }
  action(places);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].is_contiguous()) at::Tensor(parts[i]).copy_(staged[i]);
  }
}

// to = from, which no gradient follows: what gathers and scatters do in a world of one rank. The shapes may differ.
void copy_alone(const at::Tensor& to, const at::Tensor& from);

}  // namespace dtrain
