#pragma once
// Where each byte of a checkpoint lies: a pure function of names, types and shapes, so that each rank knows it without
// a question. Tensors go to files in the order of the list. In a file the tensors of larger elements come first, then
// by name: so each begins at a multiple of its element's size, and safetensors' demand of no gaps is kept.
#include <cstdint>
#include <string>
#include <vector>

#include "strategies/checkpoint/header_wire.h"

namespace dtrain::checkpoint {

struct TensorSpec {
  std::string name;
  const StoredType* type = nullptr;
  std::vector<std::int64_t> shape;  // of the whole tensor

  std::uint64_t elements() const { return elements_of(shape); }
  std::uint64_t element_bytes() const { return static_cast<std::uint64_t>(type->bits) / 8; }
};

struct PlannedFile {
  std::string name;
  std::string head;                  // its first bytes: length and header
  std::uint64_t bytes = 0;           // of the whole file
  std::vector<std::size_t> tensors;  // places in the list, in the order of the file
};

struct Layout {
  std::vector<TensorSpec> tensors;
  std::vector<PlannedFile> files;
  // Of each tensor of the list: its file, and its first byte there.
  std::vector<std::size_t> file_of;
  std::vector<std::uint64_t> begin_of;
};

// Files named STEM.safetensors, or STEM-00001-of-00003.safetensors where one would have more than `max_file_bytes` of
// data (0: no limit). A larger tensor has a file for itself. No file where there is no tensor. Throws Refused: a name
// is empty, "__metadata__", there twice or not UTF-8, or a shape makes no sense.
Layout plan_layout(std::vector<TensorSpec> tensors, const std::string& stem, std::uint64_t max_file_bytes);

// Hugging Face's STEM.safetensors.index.json: which tensor is in which file.
std::string index_text(const Layout& layout);

// The same for the same list, and another for nearly every other: what the ranks compare.
std::string fingerprint(const std::vector<TensorSpec>& tensors);

}  // namespace dtrain::checkpoint
