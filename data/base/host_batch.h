#pragma once
// A batch as plain memory, which a tensor of any library can take over. Pure.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "data/base/row_layout.h"

namespace dtrain::data {

// Memory of a tensor, with what frees it.
using Block = std::shared_ptr<std::byte>;

// Where the memory of batches comes from: a block of at least so many bytes, aligned for all types of elements, and
// never null. Throws if there is none. Threads that read call it.
using BlockAllocator = std::function<Block(std::size_t bytes)>;

// The usual one. As aligned as torch's memory is.
inline Block new_block(std::size_t bytes) {
  constexpr std::size_t alignment = 64;
  void* block = std::aligned_alloc(alignment, (bytes / alignment + 1) * alignment);
  if (block == nullptr) throw std::bad_alloc();
  return {static_cast<std::byte*>(block), [](std::byte* of) { std::free(of); }};
}

struct HostTensor {
  ElementType type;
  std::vector<std::int64_t> shape;
  Block values;  // in the order of the shape, the last dimension side by side
};

struct HostBatch {
  std::vector<HostTensor> tensors;
  std::int64_t rows = 0, repeated = 0, global_rows = 0;  // LoadedBatch's
};

// The names of the tensors that a batch has for these columns, in its order. A ragged column has two: its values, and
// where each row's begin.
inline std::vector<std::string> tensor_names(const std::vector<TensorColumns>& of) {
  std::vector<std::string> names;
  for (const TensorColumns& tensor : of) {
    names.push_back(tensor.name);
    if (tensor.ragged()) names.push_back(tensor.name + ".offsets");
  }
  return names;
}

}  // namespace dtrain::data
