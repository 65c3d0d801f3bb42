#include "data/abi/abi_calls.h"

#include <memory>
#include <new>
#include <vector>

namespace dtrain::data {
namespace {

std::uint8_t code_of(ElementType type) {
  switch (type) {
    case ElementType::boolean:
      return dlpack_bool;
    case ElementType::uint8:
      return dlpack_uint;
    case ElementType::float16:
    case ElementType::float32:
    case ElementType::float64:
      return dlpack_float;
    default:
      return dlpack_int;
  }
}

// A tensor that owns what it consists of.
struct OwnedTensor {
  HostTensor host;
  DLManagedTensor managed;
};

std::unique_ptr<OwnedTensor> owned_tensor(HostTensor host) {
  auto owned = std::make_unique<OwnedTensor>(OwnedTensor{std::move(host), {}});
  auto& tensor = owned->managed.tensor;
  tensor.data = owned->host.values.get();
  tensor.device = {dlpack_cpu, 0};
  tensor.dimensions = static_cast<std::int32_t>(owned->host.shape.size());
  tensor.element = {code_of(owned->host.type), static_cast<std::uint8_t>(8 * element_bytes(owned->host.type)), 1};
  tensor.shape = owned->host.shape.data();
  owned->managed.context = owned.get();
  owned->managed.deleter = [](DLManagedTensor* self) { delete static_cast<OwnedTensor*>(self->context); };
  return owned;
}

}  // namespace

std::string& last_error() {
  static thread_local std::string text;
  return text;
}

BlockAllocator allocator_of(const dtrain_data_allocator* allocator) {
  if (allocator == nullptr) return new_block;
  return [of = *allocator](std::size_t bytes) {
    void* block = of.allocate(of.context, bytes);
    if (block == nullptr) throw std::bad_alloc();
    return Block(static_cast<std::byte*>(block), [of](std::byte* memory) { of.deallocate(of.context, memory); });
  };
}

void give_batch(HostBatch batch, DLManagedTensor** tensors, dtrain_batch_rows* rows) {
  *rows = {batch.rows, batch.repeated, batch.global_rows};
  std::vector<std::unique_ptr<OwnedTensor>> owned;
  for (HostTensor& host : batch.tensors) owned.push_back(owned_tensor(std::move(host)));
  for (auto& tensor : owned) *tensors++ = &tensor.release()->managed;
}

}  // namespace dtrain::data
