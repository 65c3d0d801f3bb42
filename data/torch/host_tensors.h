#pragma once
// Plain memory as torch's tensors.
#include <torch/types.h>

#include <cstdlib>

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

// The tensor takes the memory over.
inline torch::Tensor tensor_of(HostTensor host) {
  std::byte* values = host.values.release();
  return at::from_blob(
      values, host.shape, [](void* block) { FreeBlock()(static_cast<std::byte*>(block)); },
      at::dtype(scalar_type(host.type)));
}

}  // namespace dtrain::data
