#include "strategies/collectives/collectives.h"

#include <typeinfo>

#include "strategies/comm/backend/cpu_backend.h"
#include "strategies/torch/compat.h"

namespace dtrain {
namespace {

constexpr std::size_t kBroadcastBytes = 250 * 1024 * 1024;  // at most so much is packed into one broadcast

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
  std::vector<at::Tensor> tensors{tensor};
  auto options = waiting<c10d::AllreduceOptions>();
  options.reduceOp = std::move(op);
  finish(group->allreduce(tensors, options));
}

void broadcast(const GroupPtr& group, const at::Tensor& tensor, int root) {
  if (const OwnBackend backend = own_backend(group, tensor)) return backend->broadcast_now(tensor, root);
  std::vector<at::Tensor> tensors{tensor};
  auto options = waiting<c10d::BroadcastOptions>();
  options.rootRank = root;
  finish(group->broadcast(tensors, options));
}

void broadcast_all(const GroupPtr& group, const std::vector<at::Tensor>& tensors, int root) {
  const at::NoGradGuard no_grad;
  c10d::broadcast_coalesced(group, tensors, kBroadcastBytes, root);
}

void all_gather(const GroupPtr& group, at::Tensor& output, at::Tensor& input) {
  if (const OwnBackend backend = own_backend(group, output)) return backend->all_gather_now(output, input);
  finish(all_gather_single(*group, output, input, waiting<c10d::AllgatherOptions>()));
}

void reduce_scatter(const GroupPtr& group, at::Tensor& output, at::Tensor& input, c10d::ReduceOp op) {
  if (const OwnBackend backend = own_backend(group, output)) return backend->reduce_scatter_now(output, input, op);
  auto options = waiting<c10d::ReduceScatterOptions>();
  options.reduceOp = std::move(op);
  finish(reduce_scatter_single(*group, output, input, options));
}

void all_to_all(const GroupPtr& group, at::Tensor& output, at::Tensor& input) {
  if (const OwnBackend backend = own_backend(group, output)) return backend->all_to_all_now(output, input);
  finish(all_to_all_single(*group, output, input, waiting<c10d::AllToAllOptions>()));
}

at::Tensor empty_shared(const GroupPtr& group, std::int64_t count, const at::TensorOptions& options) {
  if (!options.device().is_cpu()) return at::empty({count}, options);
  const OwnBackend backend = own_backend(group);
  return backend ? backend->empty_shared(count, options) : at::empty({count}, options);
}

void send(const GroupPtr& group, const at::Tensor& tensor, int to, int tag) {
  if (const OwnBackend backend = own_backend(group, tensor)) return backend->send_now(tensor, to, tag);
  std::vector<at::Tensor> tensors{tensor};
  finish(group->send(tensors, to, tag));
}

void recv(const GroupPtr& group, const at::Tensor& tensor, int from, int tag) {
  if (const OwnBackend backend = own_backend(group, tensor))
    return static_cast<void>(backend->recv_now(tensor, from, tag));
  std::vector<at::Tensor> tensors{tensor};
  finish(group->recv(tensors, from, tag));
}

int recv_any(const GroupPtr& group, const at::Tensor& tensor, int tag) {
  if (const OwnBackend backend = own_backend(group, tensor)) return backend->recv_any_now(tensor, tag);
  std::vector<at::Tensor> tensors{tensor};
  const auto work = group->recvAnysource(tensors, tag);
  work->wait();
  return work->sourceRank();
}

}  // namespace dtrain
