#include "strategies/collectives/collectives.h"

#include <typeinfo>

#include "strategies/comm/backend/cpu_backend.h"
#include "strategies/torch/compat.h"

namespace dtrain {
namespace {

constexpr std::size_t kBroadcastBytes = 250 * 1024 * 1024;  // at most so much is packed into one broadcast
constexpr std::size_t kAloneBytes = 4 * 1024 * 1024;        // a tensor of so much is broadcast where it lies

template <class Options>
Options waiting() {
  Options options;
  options.asyncOp = false;
  return options;
}

// Ours, for CPU tensors: what torch adds on the way there takes longer than a small operation. Held meanwhile: another
// thread may end the group.
using OwnBackend = c10::intrusive_ptr<CpuBackend>;
OwnBackend own_backend(const GroupPtr& group) {
  auto backend = group->getBackend(at::kCPU);
  const c10d::Backend& its = *backend;
  if (typeid(its) != typeid(CpuBackend)) return {};
  return OwnBackend::reclaim(static_cast<CpuBackend*>(backend.release()));
}
OwnBackend own_backend(const GroupPtr& group, const at::Tensor& tensor) {
  return tensor.is_cpu() ? own_backend(group) : OwnBackend();
}

// NCCL takes the values of a tensor as they lie in memory. `tensor` of another layout is copied; the collective works
// on the copy, and write_back() brings it into `tensor`.
class InOrder {
 public:
  explicit InOrder(const at::Tensor& tensor) : tensor_(tensor), lies_(tensor.contiguous()) {}
  at::Tensor& value() { return lies_; }
  void write_back() const {
    const at::NoGradGuard no_grad;
    if (!lies_.is_same(tensor_)) tensor_.copy_(lies_);
  }

 private:
  const at::Tensor& tensor_;
  at::Tensor lies_;
};

// What is moved and not computed with may have any type of the same size, and NCCL has no 16-bit integers and few
// unsigned ones.
at::Tensor movable(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kShort:
    case at::kUInt16:
      return tensor.view(at::kHalf);
    case at::kUInt32:
      return tensor.view(at::kInt);
    case at::kUInt64:
      return tensor.view(at::kLong);
    default:
      return tensor;
  }
}

// NCCL has none of these.
bool is_bitwise(const c10d::ReduceOp& op) {
  using Op = c10d::ReduceOp;
  return op == Op::BAND || op == Op::BOR || op == Op::BXOR;
}

// Of the rows of `all`.
at::Tensor reduce_bits(const at::Tensor& all, const c10d::ReduceOp& op) {
  at::Tensor result = all[0].clone();
  for (std::int64_t row = 1; row < all.size(0); ++row) {
    if (op == c10d::ReduceOp::BAND) result.bitwise_and_(all[row]);
    if (op == c10d::ReduceOp::BOR) result.bitwise_or_(all[row]);
    if (op == c10d::ReduceOp::BXOR) result.bitwise_xor_(all[row]);
  }
  return result;
}

// NCCL gives none where the caller's stream waits for it.
void finish(const c10::intrusive_ptr<c10d::Work>& work) {
  if (work) work->wait();
}

}  // namespace

void barrier(const GroupPtr& group) {
  if (const OwnBackend backend = own_backend(group)) return backend->barrier_now();
  finish(group->barrier(waiting<c10d::BarrierOptions>()));
}

void all_reduce(const GroupPtr& group, const at::Tensor& tensor, c10d::ReduceOp op) {
  if (const OwnBackend backend = own_backend(group, tensor)) return backend->all_reduce_now(tensor, op);
  if (tensor.is_sparse()) {
    const at::NoGradGuard no_grad;
    const at::Tensor dense = tensor.to_dense();
    all_reduce(group, dense, op);
    tensor.copy_(dense.to_sparse(tensor.sparse_dim()));
    return;
  }
  InOrder own(tensor);
  if (is_bitwise(op)) {
    at::Tensor all = at::empty({group->getSize(), tensor.numel()}, own.value().options());
    all_gather(group, all, own.value());
    own.value().copy_(reduce_bits(all, op).view_as(own.value()));
    return own.write_back();
  }
  if (tensor.scalar_type() == at::kShort) own.value() = own.value().to(at::kInt);
  std::vector<at::Tensor> tensors{own.value()};
  auto options = waiting<c10d::AllreduceOptions>();
  options.reduceOp = std::move(op);
  finish(group->allreduce(tensors, options));
  own.write_back();
}

void broadcast(const GroupPtr& group, const at::Tensor& tensor, int root) {
  if (const OwnBackend backend = own_backend(group, tensor)) return backend->broadcast_now(tensor, root);
  InOrder own(tensor);
  std::vector<at::Tensor> tensors{movable(own.value())};
  auto options = waiting<c10d::BroadcastOptions>();
  options.rootRank = root;
  finish(group->broadcast(tensors, options));
  own.write_back();
}

void broadcast_all(const GroupPtr& group, const std::vector<at::Tensor>& tensors, int root) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> moved;
  for (const at::Tensor& tensor : tensors) {
    // What needs no message of its own is packed.
    if (tensor.nbytes() >= kAloneBytes) {
      broadcast(group, tensor.detach(), root);
    } else {
      moved.push_back(own_backend(group, tensor) ? tensor : movable(tensor));
    }
  }
  if (!moved.empty()) c10d::broadcast_coalesced(group, moved, kBroadcastBytes, root);
}

void all_gather(const GroupPtr& group, at::Tensor& output, at::Tensor& input) {
  if (const OwnBackend backend = own_backend(group, output)) return backend->all_gather_now(output, input);
  InOrder own(input);
  at::Tensor to = movable(output), from = movable(own.value());
  finish(all_gather_single(*group, to, from, waiting<c10d::AllgatherOptions>()));
}

void reduce_scatter(const GroupPtr& group, at::Tensor& output, at::Tensor& input, c10d::ReduceOp op) {
  if (const OwnBackend backend = own_backend(group, output)) return backend->reduce_scatter_now(output, input, op);
  InOrder own(output);
  if (is_bitwise(op)) {
    at::Tensor rows = input.view({group->getSize(), -1}), parts = at::empty_like(rows);
    all_to_all(group, parts, rows);
    own.value().copy_(reduce_bits(parts, op).view_as(own.value()));
    return own.write_back();
  }
  const bool lacks = output.scalar_type() == at::kShort;
  if (lacks) own.value() = own.value().to(at::kInt);
  at::Tensor from = lacks ? input.to(at::kInt) : input;
  auto options = waiting<c10d::ReduceScatterOptions>();
  options.reduceOp = std::move(op);
  finish(reduce_scatter_single(*group, own.value(), from, options));
  own.write_back();
}

void all_to_all(const GroupPtr& group, at::Tensor& output, at::Tensor& input) {
  if (const OwnBackend backend = own_backend(group, output)) return backend->all_to_all_now(output, input);
  at::Tensor to = movable(output), from = movable(input);
  finish(all_to_all_single(*group, to, from, waiting<c10d::AllToAllOptions>()));
}

bool shares_memory(const GroupPtr& group) {
  const OwnBackend backend = own_backend(group);
  return backend && !backend->spans_hosts();
}

at::Tensor empty_shared(const GroupPtr& group, std::int64_t count, const at::TensorOptions& options) {
  if (!options.device().is_cpu()) return at::empty({count}, options);
  const OwnBackend backend = own_backend(group);
  return backend ? backend->empty_shared(count, options) : at::empty({count}, options);
}

void send(const GroupPtr& group, const at::Tensor& tensor, int to, int tag) {
  if (const OwnBackend backend = own_backend(group, tensor)) return backend->send_now(tensor, to, tag);
  std::vector<at::Tensor> tensors{movable(InOrder(tensor).value())};
  finish(group->send(tensors, to, tag));
}

void recv(const GroupPtr& group, const at::Tensor& tensor, int from, int tag) {
  if (const OwnBackend backend = own_backend(group, tensor))
    return static_cast<void>(backend->recv_now(tensor, from, tag));
  InOrder own(tensor);
  std::vector<at::Tensor> tensors{movable(own.value())};
  finish(group->recv(tensors, from, tag));
  own.write_back();
}

int recv_any(const GroupPtr& group, const at::Tensor& tensor, int tag) {
  if (const OwnBackend backend = own_backend(group, tensor)) return backend->recv_any_now(tensor, tag);
  std::vector<at::Tensor> tensors{tensor};
  const auto work = group->recvAnysource(tensors, tag);
  work->wait();
  return work->sourceRank();
}

}  // namespace dtrain
