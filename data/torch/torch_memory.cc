#include "data/torch/torch_memory.h"

#include <ATen/Context.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "data/base/one_line.h"
#include "data/torch/host_tensors.h"
#include "dtrain/errors.h"

namespace dtrain::data {

BlockAllocator torch_allocator(const std::string& who, const at::TensorOptions& options) {
  return [who, options](std::size_t bytes) {
    try {
      // Of no bytes torch has no address.
      torch::Tensor memory = at::empty({static_cast<std::int64_t>(std::max<std::size_t>(bytes, 1))}, options);
      auto* begin = static_cast<std::byte*>(memory.mutable_data_ptr());
      return Block(begin, FreeTensor{std::move(memory)});
    } catch (const c10::Error& error) {
      const std::string text = error.what_without_backtrace();
      throw std::runtime_error(one_line(fmt::format(
          "dtrain: {}: pin_memory: torch has no {} bytes of page-locked memory: {}; set pin_memory to no, or take a "
          "smaller batch_size or prefetch",
          who, bytes, text.substr(0, text.find('\n')))));
    }
  };
}

BlockAllocator batch_allocator(const std::string& who, PinMemory pin) {
  const bool has_gpu = pin != PinMemory::no && at::globalContext().hasCUDA();
  if (pin == PinMemory::yes && !has_gpu) {
    throw ConfigError(fmt::format(
        "dtrain: {}: pin_memory: torch finds no GPU of CUDA or ROCm here, so no memory can be page-locked for it; set "
        "it to no, or to automatic, which is yes where there is one",
        who));
  }
  if (!has_gpu) return new_block;
  at::globalContext().defaultGenerator(at::kCUDA);  // it begins with CUDA, without which it knows of no pinned memory
  auto allocate = torch_allocator(who, at::dtype(at::kByte).pinned_memory(true));
  // On this thread, whose current device is this rank's: the threads that read know of none, and would begin with the
  // first one of the machine.
  allocate(1);
  return allocate;
}

}  // namespace dtrain::data
