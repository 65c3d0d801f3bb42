#pragma once
// Batches in torch's own memory, which may be page-locked.
#include <ATen/core/TensorBody.h>

#include <string>

#include "data/base/host_batch.h"
#include "dtrain/parquet_options.h"

namespace dtrain::data {

// What the option means on this machine: blocks of torch's memory, page-locked, or new_block(). `who`: the loader's
// name, for errors. Throws ConfigError.
BlockAllocator batch_allocator(const std::string& who, PinMemory pin);

// Blocks of tensors with these options, which tensor_of() finds again. Throws std::runtime_error, with one line, if
// torch has no memory.
BlockAllocator torch_allocator(const std::string& who, const at::TensorOptions& options);

}  // namespace dtrain::data
