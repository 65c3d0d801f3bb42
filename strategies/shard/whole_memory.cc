#include "strategies/shard/whole_memory.h"

#include <fmt/format.h>
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
  std::string reason;
  const auto attempt = [&](const auto& make) {
    try {
      memory = std::make_shared<SharedMemory>(make());
    } catch (const std::exception& error) {
      reason = short_reason(error);
    }
  };
  at::Tensor place = at::full({2}, -1, at::kLong);
  if (group.rank() == 0) {
    attempt([&] { return SharedMemory::create("dtrain parameters", bytes); });
    if (memory) {
      place[0] = static_cast<std::int64_t>(getpid());
      place[1] = memory->fd();
    }
  }
  group.broadcast(place, 0);
  const auto pid = static_cast<int>(place[0].item<std::int64_t>()),
             fd = static_cast<int>(place[1].item<std::int64_t>());
  if (!memory && pid >= 0) attempt([&] { return SharedMemory::open(pid, fd); });
  at::Tensor have = at::full({1}, memory ? 1 : 0, at::kLong);
  group.all_reduce(have, c10d::ReduceOp::MIN);
  if (have.item<std::int64_t>() == 0) {
    throw ConfigError(fmt::format(
        "dtrain: the ranks of this host cannot keep {} bytes of parameters once, in memory that they share{}{}. Give "
        "the host more memory, or set \"one_copy\": false in the strategy",
        bytes, reason.empty() ? "; another rank knows why" : ": ", reason));
  }
  memory->close_fd();
  return WholeMemory(tensor_in(memory, elements, options), memory);
}

void WholeMemory::take() {
  if (shared_) return;
  c10::StorageImpl* const storage = row_.storage().unsafeGetStorageImpl();
  allow_access(*storage);
  storage->set_data_ptr_noswap(storage->allocator()->allocate(storage->nbytes()));
}

void WholeMemory::give_back(const std::string& reason) {
  if (shared_) return;
  c10::StorageImpl* const storage = row_.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(nothing(row_.device()));
  refuse_access(*storage, reason);
}

ShardedParameter::ShardedParameter(std::string name, at::Tensor parameter, const at::Tensor& view)
    : name_(std::move(name)), parameter_(std::move(parameter)), whole_(view.storage()) {
  parameter_.set_data(view);
  sharded_ = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), whole_.nbytes(),
                                                   nothing(view.device()), nullptr, /*resizable=*/false);
}

void ShardedParameter::set_name(const std::string& name, const std::string& advice) {
  name_ = name;
  sharded_.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_("dtrain: parameter '" + name +
                                                                                        "' is sharded here. " + advice);
}

void ShardedParameter::set_whole(bool whole) {
  if (!has_our_memory()) return;
  parameter_.unsafeGetTensorImpl()->set_storage_keep_dtype(whole ? whole_ : sharded_);
}

void ShardedParameter::settle() { trains_ = parameter_.requires_grad(); }

bool ShardedParameter::has_our_memory() const {
  const c10::StorageImpl* const its = parameter_.storage().unsafeGetStorageImpl();
  return its == whole_.unsafeGetStorageImpl() || its == sharded_.unsafeGetStorageImpl();
}

bool ShardedParameter::is_as_it_was() const { return has_our_memory() && parameter_.requires_grad() == trains_; }

}  // namespace dtrain
