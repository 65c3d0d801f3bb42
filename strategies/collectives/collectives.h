#pragma once
// Collectives and messages that their caller waits for. Collectives are of all ranks of a group. On CPU tensors they
// are carried out on the calling thread where nothing is queued before them (see CpuBackend).
#include "strategies/torch/pch.h"

namespace dtrain {

using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;

void barrier(const GroupPtr& group);
// In place.
void all_reduce(const GroupPtr& group, const at::Tensor& tensor, c10d::ReduceOp op = c10d::ReduceOp::SUM);
void broadcast(const GroupPtr& group, const at::Tensor& tensor, int root);
// In place, packed into few messages; parameters may be among them.
void broadcast_all(const GroupPtr& group, const std::vector<at::Tensor>& tensors, int root);
// `output` has room for `input` of each rank, in their order.
void all_gather(const GroupPtr& group, at::Tensor& output, at::Tensor& input);
// `output` receives this rank's part of the reduced `input`, which has one for each rank, in their order.
void reduce_scatter(const GroupPtr& group, at::Tensor& output, at::Tensor& input, c10d::ReduceOp op);
// Row by row in the first dimension: rank r's `output` receives part r of every rank's `input`, in their order.
void all_to_all(const GroupPtr& group, at::Tensor& output, at::Tensor& input);

// All ranks of the group are on this host, and CPU tensors go through dtrain's shared memory.
bool shares_memory(const GroupPtr& group);

// A row of `count` elements that the group reduces without copies where the memory for it is shared (CpuBackend). Not
// initialised. No collective.
at::Tensor empty_shared(const GroupPtr& group, std::int64_t count, const at::TensorOptions& options);

// Messages between two ranks, on CPU tensors without a Work.
void send(const GroupPtr& group, const at::Tensor& tensor, int to, int tag);
void recv(const GroupPtr& group, const at::Tensor& tensor, int from, int tag);
// From any rank; which it was.
int recv_any(const GroupPtr& group, const at::Tensor& tensor, int tag);

}  // namespace dtrain
