#pragma once
// Plain memory as torch's tensors.
#include <torch/types.h>

#include <memory>
#include <utility>

#include "data/base/host_batch.h"

namespace dtrain::data {

inline at::ScalarType scalar_type(ElementType type) {
  switch (type) {
    case ElementType::boolean:
      return at::kBool;
    case ElementType::uint8:
      return at::kByte;
    case ElementType::int8:
      return at::kChar;
    case ElementType::int16:
      return at::kShort;
    case ElementType::int32:
      return at::kInt;
    case ElementType::int64:
      return at::kLong;
    case ElementType::float16:
      return at::kHalf;
    case ElementType::float32:
      return at::kFloat;
    default:
      return at::kDouble;
  }
}

// Frees a block that is torch's memory.
struct FreeTensor {
  torch::Tensor memory;
  void operator()(std::byte*) { memory.reset(); }
};

// The tensor takes the memory over. If that is torch's, torch knows it: it waits for copies from it.
inline torch::Tensor tensor_of(HostTensor host) {
  const auto type = at::dtype(scalar_type(host.type));
  if (const auto* of = std::get_deleter<FreeTensor>(host.values)) {
    return at::empty({0}, type).set_(of->memory.storage(), 0, host.shape, {});
  }
  std::byte* values = host.values.get();
  return at::from_blob(
      values, host.shape, [block = std::move(host.values)](void*) {}, type);
}

}  // namespace dtrain::data
