// See tensors.h.
#include "strategies/comm/backend/tensors.h"

#include <ATen/MemoryOverlap.h>

#include <cctype>
#include <string>

namespace dtrain {

std::optional<ElementType> element_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return ElementType::f64;
    case at::kFloat:
      return ElementType::f32;
    case at::kHalf:
      return ElementType::f16;
    case at::kBFloat16:
      return ElementType::bf16;
    case at::kComplexDouble:
      return ElementType::c128;
    case at::kComplexFloat:
      return ElementType::c64;
    case at::kLong:
      return ElementType::i64;
    case at::kInt:
      return ElementType::i32;
    case at::kShort:
      return ElementType::i16;
    case at::kChar:
      return ElementType::i8;
    case at::kUInt64:
      return ElementType::u64;
    case at::kUInt32:
      return ElementType::u32;
    case at::kUInt16:
      return ElementType::u16;
    case at::kByte:
      return ElementType::u8;
    case at::kBool:
      return ElementType::boolean;
    default:
      return std::nullopt;
  }
}

ElementType element_type(const at::Tensor& tensor) {
  const auto type = element_of(tensor.scalar_type());
  TORCH_CHECK(type, "dtrain: CPU reductions do not take ", tensor.scalar_type(), " tensors");
  return *type;
}

namespace {

Reduction reduction_of(c10d::ReduceOp::RedOpType op) {
  switch (op) {
    case c10d::ReduceOp::SUM:
      return Reduction::sum;
    case c10d::ReduceOp::AVG:
      return Reduction::avg;
    case c10d::ReduceOp::PRODUCT:
      return Reduction::product;
    case c10d::ReduceOp::MIN:
      return Reduction::min;
    case c10d::ReduceOp::MAX:
      return Reduction::max;
    case c10d::ReduceOp::BAND:
      return Reduction::band;
    case c10d::ReduceOp::BOR:
      return Reduction::bor;
    case c10d::ReduceOp::BXOR:
      return Reduction::bxor;
    case c10d::ReduceOp::PREMUL_SUM:
      TORCH_CHECK(false, "dtrain: PREMUL_SUM does not work on CPU tensors; multiply the tensor, then use SUM");
    default:
      TORCH_CHECK(false, "dtrain: CPU reductions are SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR and BXOR");
  }
}

}  // namespace

Reduction reduction_of(const c10d::ReduceOp& op, const at::Tensor& tensor) {
  const Reduction reduction = reduction_of(static_cast<c10d::ReduceOp::RedOpType>(op));
  if (is_defined(reduction, element_type(tensor))) return reduction;
  const char* needs = "an integer or bool tensor";
  if (reduction == Reduction::avg) needs = "a floating-point or complex tensor; use SUM and divide the result";
  if (reduction == Reduction::min || reduction == Reduction::max) needs = "a tensor of real numbers";
  std::string name = name_of(reduction);
  for (char& letter : name) letter = static_cast<char>(std::toupper(letter));
  TORCH_CHECK(false, "dtrain: ", name, " of a ", tensor.scalar_type(), " tensor is not defined; it needs ", needs);
}

std::string type_and_shape(const at::Tensor& tensor) {
  std::string text = c10::toString(tensor.scalar_type());
  text += " [";
  for (const std::int64_t size : tensor.sizes()) {
    if (text.back() != '[') text += ", ";
    text += std::to_string(size);
  }
  text += ']';
  return text;
}

void check_dense_cpu(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.device().is_cpu() && tensor.layout() == at::kStrided,
              "dtrain: the CPU process group takes dense CPU tensors, not ", tensor.toString());
  // Their memory holds something else than what they read.
  TORCH_CHECK(
      !tensor.is_conj() && !tensor.is_neg(), "dtrain: a collective takes no ",
      tensor.is_conj() ? "conjugated view; call resolve_conj() first" : "negated view; call resolve_neg() first");
}

void check_sparse_cpu(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.device().is_cpu() && tensor.layout() == at::kSparse,
              "dtrain: a sparse all_reduce takes COO tensors on the CPU, not ", tensor.toString());
}

// Several elements of an expanded tensor are one place in memory: nothing can be received into it.
void check_writable(const at::Tensor& tensor) {
  check_dense_cpu(tensor);
  TORCH_CHECK(at::has_internal_overlap(tensor) != at::MemOverlap::Yes,
              "dtrain: a collective cannot write into an expanded tensor; call clone() first");
}

at::Tensor share(const at::Tensor& tensor) { return tensor.is_sparse() ? tensor : tensor.variable_data(); }

std::vector<at::Tensor> share(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> shared;
  for (const at::Tensor& tensor : tensors) shared.push_back(share(tensor));
  return shared;
}

at::Tensor only(const std::vector<at::Tensor>& tensors, const char* op) {
  TORCH_CHECK(tensors.size() == 1, "dtrain: ", op, " takes one tensor a rank, not ", tensors.size());
  check_dense_cpu(tensors.front());
  return share(tensors.front());
}

at::Tensor only_writable(const std::vector<at::Tensor>& tensors, const char* op) {
  const at::Tensor tensor = only(tensors, op);
  check_writable(tensor);
  return tensor;
}

void copy_alone(const at::Tensor& to, const at::Tensor& from) {
  const at::NoGradGuard no_grad;
  at::Tensor(to).copy_(from.reshape(to.sizes()));
}

}  // namespace dtrain
