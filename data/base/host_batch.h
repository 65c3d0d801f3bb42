#pragma once
// A batch as plain memory, which a tensor of any library can take over. Pure.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "data/base/row_layout.h"

namespace dtrain::data {

// Memory of a tensor, with what frees it.
using Block = std::shared_ptr<std::byte>;

// Where the memory of batches comes from: a block of at least so many bytes, aligned for all types of elements, and
// never null. Throws if there is none. Threads that read call it.
using BlockAllocator = std::function<Block(std::size_t bytes)>;

// The usual one. As aligned as torch's memory is. aligned_alloc() would ask malloc for more than it keeps, so a block
// would not fit where one of the same size has been, and batches that come and go would take twice their memory.
inline Block new_block(std::size_t bytes) {
  constexpr std::size_t alignment = 64;
  auto* begin = static_cast<std::byte*>(std::malloc(bytes + alignment));
  if (begin == nullptr) throw std::bad_alloc();
  const std::size_t before = alignment - reinterpret_cast<std::uintptr_t>(begin) % alignment;
  return {begin + before, [begin](std::byte*) { std::free(begin); }};
}

struct HostTensor {
  ElementType type;
  std::vector<std::int64_t> shape;
  Block values;  // in the order of the shape, the last dimension side by side
};

// `rows` rows of columns that have so many bytes in each of them, not ragged ones. Without values yet.
inline HostTensor fixed_tensor(const TensorColumns& of, std::size_t row_bytes, std::int64_t rows,
                               const BlockAllocator& allocate) {
  HostTensor tensor{of.columns[0].type, {rows}, allocate(row_bytes * static_cast<std::size_t>(rows))};
  if (of.matrix) tensor.shape.push_back(static_cast<std::int64_t>(of.columns.size()));
  if (of.columns[0].list_size != 0) tensor.shape.push_back(of.columns[0].list_size);
  return tensor;
}

inline HostTensor int64_tensor(std::int64_t size, const BlockAllocator& allocate) {
  return {ElementType::int64, {size}, allocate(static_cast<std::size_t>(size) * sizeof(std::int64_t))};
}
inline std::int64_t* int64_values(const HostTensor& tensor) {
  return reinterpret_cast<std::int64_t*>(tensor.values.get());
}

// Values of text_lengths() become offsets: end[i + 1] = end[i] + length i. Returns the last of them. The lengths need
// not be aligned.
inline std::int64_t* add_lengths(std::span<const std::byte> lengths, std::int64_t* end) {
  std::int32_t length;
  for (std::size_t at = 0; at < lengths.size(); at += sizeof length, ++end) {
    std::memcpy(&length, lengths.data() + at, sizeof length);
    end[1] = end[0] + length;
  }
  return end;
}

struct HostBatch {
  std::vector<HostTensor> tensors;
  std::int64_t rows = 0, repeated = 0, global_rows = 0;  // LoadedBatch's
};

// The names of the tensors that a batch has for these columns, in its order. A ragged column has two: its values, and
// where each row's begin. Lists of strings have three: the bytes, where each string's begin, and where each row's
// strings begin.
inline std::vector<std::string> tensor_names(const std::vector<TensorColumns>& of) {
  std::vector<std::string> names;
  for (const TensorColumns& tensor : of) {
    names.push_back(tensor.name);
    if (tensor.ragged()) names.push_back(tensor.name + ".offsets");
    if (tensor.texts()) names.push_back(tensor.name + ".rows");
  }
  return names;
}

}  // namespace dtrain::data
