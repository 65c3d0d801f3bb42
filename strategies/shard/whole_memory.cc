#include "strategies/shard/whole_memory.h"

#include <unistd.h>

#include "strategies/collectives/collectives.h"

namespace dtrain {
namespace {

c10::DataPtr nothing(c10::Device device) { return {nullptr, device}; }

at::Tensor tensor_in(const std::shared_ptr<SharedMemory>& memory, std::int64_t elements,
                     const at::TensorOptions& options) {
  return at::from_blob(
      memory->base(), {elements}, [memory](void*) {}, options);
}

}  // namespace

WholeMemory::WholeMemory(std::int64_t elements, const at::TensorOptions& options)
    : WholeMemory(at::empty({elements}, options)) {}

WholeMemory WholeMemory::of_host(const Group& group, std::int64_t elements, const at::TensorOptions& options) {
  const std::size_t bytes = std::max<std::size_t>(1, static_cast<std::size_t>(elements) * options.dtype().itemsize());
  std::shared_ptr<SharedMemory> memory;
  at::Tensor place = at::zeros({2}, at::kLong);
  if (group.rank() == 0) {
    memory = std::make_shared<SharedMemory>(SharedMemory::create("dtrain parameters", bytes));
    place[0] = static_cast<std::int64_t>(getpid());
    place[1] = memory->fd();
  }
  group.broadcast(place, 0);
  if (!memory) {
    memory = std::make_shared<SharedMemory>(SharedMemory::open(static_cast<int>(place[0].item<std::int64_t>()),
                                                               static_cast<int>(place[1].item<std::int64_t>())));
  }
  group.barrier();
  memory->close_fd();
  return WholeMemory(tensor_in(memory, elements, options), memory);
}

void WholeMemory::take() {
  if (shared_) return;
  c10::StorageImpl* const storage = row_.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(storage->nbytes()));
}

void WholeMemory::give_back() {
  if (shared_) return;
  row_.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(nothing(row_.device()));
}

ShardedParameter::ShardedParameter(std::string name, at::Tensor parameter, const at::Tensor& view)
    : name_(std::move(name)), parameter_(std::move(parameter)), whole_(view.storage()) {
  parameter_.set_data(view);
  sharded_ = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), whole_.nbytes(),
                                                   nothing(view.device()), nullptr, /*resizable=*/false);
  set_name(name_);
}

void ShardedParameter::set_name(const std::string& name) {
  name_ = name;
  sharded_.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(
      "dtrain: parameter '" + name +
      "' is sharded here. Use it in the forward of its unit, which Parallel calls, or within full_parameters()");
}

void ShardedParameter::set_whole(bool whole) {
  parameter_.unsafeGetTensorImpl()->set_storage_keep_dtype(whole ? whole_ : sharded_);
}

}  // namespace dtrain
