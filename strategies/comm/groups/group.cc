// See group.h.
#include "strategies/comm/groups/group.h"

#include <utility>

#include "strategies/comm/base/own_process.h"
#include "strategies/comm/hosts/host_collectives.h"
#include "strategies/comm/local/local_collectives.h"
#include "strategies/comm/messages/p2p.h"

namespace dtrain {

CommGroup::CommGroup(int rank, std::unique_ptr<LocalCollectives> local, std::unique_ptr<P2p> p2p,
                     std::unique_ptr<HostCollectives> between)
    : process_(own_process()),
      rank_(rank),
      local_(std::move(local)),
      p2p_(std::move(p2p)),
      between_(std::move(between)) {}

CommGroup::~CommGroup() {
  if (own_process() != process_) {
    static_cast<void>(p2p_.release());  // its thread is not in this process, and may have held its mutex
    return;
  }
  if (between_) between_->leave();
  p2p_->end();  // while the connections are there, and before local_ tells that this rank left
}

void CommGroup::fail(const Failure& failure, const std::string& during, const std::string& detail) {
  try {
    local_->wait().fail(failure, during, detail);
  } catch (const CollectiveError&) {
    if (between_) between_->tell();
    throw;
  }
}

void CommGroup::abort() noexcept {
  local_->wait().record({FailureKind::aborted, rank_});
  if (between_) between_->tell();
}

void CommGroup::stop() noexcept { local_->wait().request_stop(); }

SegmentHeader& CommGroup::header() const { return local_->segment().header(); }

CollectiveCall CommGroup::next(CollectiveOp op, std::size_t count, ElementType type, Reduction reduction, int root,
                               Timeout timeout) {
  return {++operations_, op, count, type, reduction, root, timeout};
}

CollectiveCall CommGroup::next(CollectiveOp op, std::size_t bytes, int root, Timeout timeout) {
  return next(op, bytes, ElementType::u8, Reduction::sum, root, timeout);
}

void CommGroup::barrier(Timeout timeout) {
  const CollectiveCall call = next(CollectiveOp::barrier, 0, -1, timeout);
  if (between_) return between_->barrier(call);
  local_->check(call);
  local_->barrier_here(call);
}

void CommGroup::all_reduce(std::byte* data, std::size_t count, ElementType type, Reduction reduction, Timeout timeout) {
  const CollectiveCall call = next(CollectiveOp::all_reduce, count, type, reduction, -1, timeout);
  if (between_) return between_->all_reduce(call, data, count);
  local_->check(call);
  local_->all_reduce_here(call, data, count);
}

void CommGroup::broadcast(std::byte* data, std::size_t bytes, int root, Timeout timeout) {
  const CollectiveCall call = next(CollectiveOp::broadcast, bytes, root, timeout);
  if (between_) return between_->broadcast(call, data, bytes, root);
  local_->check(call);
  local_->broadcast_here(call, data, bytes, root);
}

void CommGroup::all_gather(const std::byte* input, const std::vector<std::byte*>& outputs, std::size_t bytes,
                           Timeout timeout) {
  const CollectiveCall call = next(CollectiveOp::all_gather, bytes, -1, timeout);
  if (between_) return between_->all_gather(call, input, outputs, bytes);
  local_->check(call);
  local_->gather_here(call, input, outputs, bytes);
}

void CommGroup::reduce(std::byte* data, std::size_t count, ElementType type, Reduction reduction, int root,
                       Timeout timeout) {
  const CollectiveCall call = next(CollectiveOp::reduce, count, type, reduction, root, timeout);
  if (between_) return between_->reduce(call, data, count, root);
  local_->check(call);
  local_->reduce_here(call, data, count, rank_ == root);
}

void CommGroup::gather(const std::byte* input, const std::vector<std::byte*>& outputs, std::size_t bytes, int root,
                       Timeout timeout) {
  const CollectiveCall call = next(CollectiveOp::gather, bytes, root, timeout);
  if (between_) return between_->gather(call, input, outputs, bytes, root);
  local_->check(call);
  local_->gather_here(call, input, outputs, bytes);
}

void CommGroup::scatter(const std::vector<const std::byte*>& inputs, std::byte* output, std::size_t bytes, int root,
                        Timeout timeout) {
  const CollectiveCall call = next(CollectiveOp::scatter, bytes, root, timeout);
  if (between_) return between_->scatter(call, inputs, output, bytes, root);
  local_->check(call);
  local_->scatter_here(call, inputs, output, bytes, root);
}

void CommGroup::all_to_all(Inputs inputs, Outputs outputs, Timeout timeout) {
  const CollectiveCall call = next(CollectiveOp::all_to_all, 0, -1, timeout);
  if (between_) return between_->all_to_all(call, inputs, outputs);
  local_->check(call);
  local_->all_to_all_here(call, inputs, outputs);
}

void CommGroup::reduce_scatter(const std::vector<const std::byte*>& inputs, std::byte* output, std::size_t count,
                               ElementType type, Reduction reduction, Timeout timeout) {
  const CollectiveCall call = next(CollectiveOp::reduce_scatter, count, type, reduction, -1, timeout);
  if (between_) return between_->reduce_scatter(call, inputs, output, count);
  local_->check(call);
  local_->reduce_scatter_here(call, inputs, output, count);
}

}  // namespace dtrain
