#pragma once
// Group: some of a session's ranks that do collectives among each other. Session::world() is that of all; new_group(),
// split() and Mesh make others.
#include <torch/torch.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "dtrain/errors.h"

namespace dtrain {

struct GroupSettings {
  // What messages call the group; several may have one name. None: "group" and a number.
  std::string name{};
  // As InitOptions::collective_timeout. None: that of the session.
  std::optional<std::chrono::milliseconds> collective_timeout{};
};

// A handle: copies are the same group, which lives until end() or the end of the session. Each group has memory, a
// thread and, once they are used, connections of its own, so groups do not wait for each other, and their collectives
// may come from different threads. Within one group the order is the same on all its ranks, as for Session.
class Group {
 public:
  // No rank is in it.
  Group() = default;

  // Whether this rank is in it. If it is not, collectives and process_group() throw c10::Error.
  explicit operator bool() const { return rank() >= 0; }
  // This rank's number in the group, the place in ranks(); -1 if it is not in it.
  int rank() const;
  int size() const { return static_cast<int>(ranks().size()); }
  // In the order of the group, as the session counts them.
  const std::vector<int>& ranks() const;
  const std::string& name() const;

  // For torch's own collectives, where ranks are those of the group. It is registered for functional collectives under
  // its getGroupName().
  const c10::intrusive_ptr<c10d::ProcessGroup>& process_group() const;

  // Collectives of the group that block until done; tensors, reductions and errors as in session.h. `root` is a rank of
  // the group. CollectiveErrors name the session's ranks. For the root of a broadcast done is that its tensor may be
  // changed: of a rank that fails in it the root is told with its next collective.
  //
  // What they move, of CPU tensors, for P ranks on H hosts, as many on each; S: bytes of a rank's larger tensor. On one
  // host a rank reads so much of the others', in shared memory; on several a host sends so much, and receives as much,
  // through one of its ranks but for all_to_all. Each part goes directly to where it belongs (pairwise exchange: Thakur
  // et al., "Optimization of Collective Communication Operations in MPICH", IJHPCA 2005).
  //                   read by a rank    sent by a host
  //   all_reduce      2 (P - 1) / P S   2 (H - 1) / H S   reduce-scatter, then all-gather; no all-reduce sends less
  //                                     (Patarasuk and Yuan, "Bandwidth Optimal All-reduce Algorithms for Clusters of
  //                                     Workstations", JPDC 2009)
  //     to 64 KiB     (P - 1) S         (H - 1) S         each rank, and each host, reduces all
  //   broadcast       S                 S by the root's, (H - 2) / (H - 1) S by others: scatter, then all-gather
  //     to 64 KiB     S                 (H - 1) S by the root's
  //   all_gather, reduce_scatter
  //                   (P - 1) / P S     (H - 1) / H S
  //   all_to_all      (P - 1) / P S     (H - 1) / H S by each rank
  // A broadcast's root receives nothing, and the other hosts S. Of CUDA tensors: what NCCL chooses.
  void barrier() const;
  void all_reduce(torch::Tensor tensor, c10d::ReduceOp op = c10d::ReduceOp::SUM) const;
  void broadcast(torch::Tensor tensor, int root = 0) const;
  // `output` is contiguous and has size() times the elements of `input`: those of each rank, in their order. `input`
  // may be a part of it.
  void all_gather(torch::Tensor output, torch::Tensor input) const;
  // `input` is contiguous and has size() times the elements of `output`, which receives this rank's part of the
  // reduction, and may be that part of `input`; no other overlap is looked for.
  void reduce_scatter(torch::Tensor output, torch::Tensor input, c10d::ReduceOp op = c10d::ReduceOp::SUM) const;
  // Both are contiguous and of one type, and their first dimension can be divided by size(): `output` receives, of each
  // rank in their order, the part of its `input` that is this rank's. All parts have one size. Throws c10::Error
  // where they overlap.
  void all_to_all(torch::Tensor output, torch::Tensor input) const;

  // Messages to and from another rank of the group, which are no collectives: from any thread, and beside whatever
  // else the group does. They block: send() until the tensor may be changed, which for small ones is before anybody has
  // received it, the others until the message is there. Both sides' tensors have one type and number of elements.
  // Messages from one rank with one tag, 0 or more, come in their order. Two ranks that both send first may wait for
  // each other until the timeout; use process_group()'s asynchronous send for that. Errors as those of collectives.
  // recv_any() takes a message from any rank, and returns which; NCCL has none.
  void send(torch::Tensor tensor, int to, int tag = 0) const;
  void recv(torch::Tensor tensor, int from, int tag = 0) const;
  int recv_any(torch::Tensor tensor, int tag = 0) const;

  // Collective of the group: another one of the same ranks, for code whose collectives must not meet these. Errors as
  // in Session::new_group, but for those about the list.
  Group again(const GroupSettings& settings = {}) const;
  // Collective of the group: wait for its ranks, then end it. Further use throws. Not for Session::world().
  void end() const;

  struct State;  // opaque

 private:
  friend class Session;
  friend struct GroupsOfSession;
  explicit Group(std::shared_ptr<State> state) : state_(std::move(state)) {}
  State& checked_state() const;
  std::shared_ptr<State> state_;
};

}  // namespace dtrain
