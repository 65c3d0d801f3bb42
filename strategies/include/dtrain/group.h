#pragma once
// Group: some ranks of a session, which make collectives with each other. Session::world() is the group of all ranks.
// Session::new_group(), Session::split(), Mesh and Group::again() make others.
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
  // The name of the group in errors. Several groups may have the same name. Empty: "group" and a number.
  std::string name{};
  // As InitOptions::collective_timeout, for this group. None: the timeout of the session, or of the group whose again()
  // is called.
  std::optional<std::chrono::milliseconds> collective_timeout{};
};

// A handle: copies of it are the same group. The group lives until end() or until the session ends. Each group has
// memory, a thread and, once it needs them, connections of its own. So groups do not wait for each other, and different
// threads may call collectives of different groups. Within one group all its ranks must call the collectives in the
// same order.
class Group {
 public:
  // An empty group. No rank is in it.
  Group() = default;

  // True if this rank is in the group. If it is not, collectives and process_group() throw c10::Error.
  explicit operator bool() const { return rank() >= 0; }
  // This rank's number in the group, which is its place in ranks(). -1 if this rank is not in the group.
  int rank() const;
  // The number of the group's ranks.
  int size() const { return static_cast<int>(ranks().size()); }
  // The session's numbers of the group's ranks, in the order of the group.
  const std::vector<int>& ranks() const;
  // The name of the group in errors.
  const std::string& name() const;

  // For torch's own collectives, which count the ranks of the group from 0. Functional collectives find it by its
  // getGroupName().
  const c10::intrusive_ptr<c10d::ProcessGroup>& process_group() const;

  // The next calls are collectives of the group. They block until they are done. session.h says which tensors and
  // reductions they take, and what they throw. `root` is a rank of the group. A CollectiveError has the session's
  // numbers of ranks. The root of a broadcast may return before the other ranks have the data: its own tensor may be
  // changed then. If another rank fails in that broadcast, the root gets the error in its next collective.
  //
  // The table says how many bytes of CPU tensors a collective moves, for P ranks on H hosts with as many ranks each. S
  // is the number of bytes of the larger tensor of a rank. On one host, a rank reads this much from the other ranks, in
  // shared memory. On several hosts, a host sends this much and receives as much. One rank of the host does that, but
  // in all_to_all each rank does it. Each part goes directly to the rank that needs it (pairwise exchange: Thakur et
  // al., "Optimization of Collective Communication Operations in MPICH", IJHPCA 2005).
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
  // In a broadcast the root's host receives nothing, and each other host receives S. For CUDA tensors NCCL chooses the
  // algorithm.
  void barrier() const;
  void all_reduce(torch::Tensor tensor, c10d::ReduceOp op = c10d::ReduceOp::SUM) const;
  void broadcast(torch::Tensor tensor, int root = 0) const;
  // `output` has size() times as many elements as `input`. It receives the input of each rank, in the order of the
  // ranks. `output` is contiguous. `input` may be a part of `output`.
  void all_gather(torch::Tensor output, torch::Tensor input) const;
  // `input` is contiguous and has size() times as many elements as `output`. `output` receives this rank's part of the
  // reduction. It may be that same part of `input`. Any other overlap is an error that is not detected.
  void reduce_scatter(torch::Tensor output, torch::Tensor input, c10d::ReduceOp op = c10d::ReduceOp::SUM) const;
  // Each rank sends one part of its `input` to each rank. `output` receives the parts for this rank, in the order of
  // the ranks that sent them. All parts have the same size. Both tensors are contiguous and of one type, and size()
  // divides their first dimension. Throws c10::Error if the tensors overlap.
  void all_to_all(torch::Tensor output, torch::Tensor input) const;

  // Messages to and from another rank of the group. They are not collectives. Any thread may call them, at the same
  // time as anything else that the group does. send() blocks until its tensor may be changed; for a small tensor this
  // is before anybody has received it. recv() and recv_any() block until the message is there. Both sides use tensors
  // of one type and number of elements. A tag is 0 or more. Messages from one rank with one tag arrive in the order in
  // which they were sent. If two ranks both call send() first, they may wait for each other until the timeout; use the
  // asynchronous send of process_group() in that case. The errors are those of collectives. recv_any() takes a message
  // from any rank and returns that rank. NCCL has no recv_any().
  void send(torch::Tensor tensor, int to, int tag = 0) const;
  void recv(torch::Tensor tensor, int from, int tag = 0) const;
  int recv_any(torch::Tensor tensor, int tag = 0) const;

  // Collective of this group alone. Forms another group of the same ranks, for code whose collectives must not mix with
  // those of this group. The errors are those of init().
  Group again(const GroupSettings& settings = {}) const;
  // Collective of the group. Waits for its ranks, then ends the group and gives its memory and thread back. Further use
  // of the group throws c10::Error. Throws c10::Error for Session::world().
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
