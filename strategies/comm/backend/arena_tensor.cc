// See arena_tensor.h.
#include "strategies/comm/backend/arena_tensor.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>

#include "strategies/comm/memory/arena.h"

namespace dtrain {
namespace {

struct Held {
  Arena* arena;
  std::byte* data;
};

void let_go(void* context) {
  const std::unique_ptr<Held> held(static_cast<Held*>(context));
  held->arena->free(held->data);
}

// Storages keep it, to ask it again when they are resized.
class ArenaAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    Arena* const arena = bytes > 0 ? Arena::known() : nullptr;
    std::byte* const data = arena != nullptr ? arena->allocate(bytes) : nullptr;
    if (data == nullptr) return c10::GetCPUAllocator()->allocate(bytes);
    return {data, new Held{arena, data}, let_go, at::kCPU};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

at::Tensor empty_in_arena(std::int64_t count, caffe2::TypeMeta type) {
  static auto* const allocator = new ArenaAllocator;
  static_cast<void>(Arena::own());
  return at::detail::empty_generic({count}, allocator, c10::DispatchKeySet(c10::DispatchKey::CPU),
                                   c10::typeMetaToScalarType(type), std::nullopt);
}

}  // namespace dtrain
