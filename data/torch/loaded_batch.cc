#include "data/torch/loaded_batch.h"

#include <torch/types.h>

#include <cstdlib>
#include <utility>

namespace dtrain::data {
namespace {

at::ScalarType scalar_type(ElementType type) {
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

torch::Tensor tensor_of(HostTensor host) {
  std::byte* values = host.values.release();
  return at::from_blob(
      values, host.shape, [](void* block) { std::free(block); }, at::dtype(scalar_type(host.type)));
}

}  // namespace

LoadedBatch loaded_batch(HostBatch host, const std::vector<std::string>& names) {
  LoadedBatch batch{{}, host.rows, host.repeated, host.global_rows};
  for (std::size_t i = 0; i < host.tensors.size(); ++i) {
    batch.tensors.emplace(names[i], tensor_of(std::move(host.tensors[i])));
  }
  return batch;
}

}  // namespace dtrain::data
