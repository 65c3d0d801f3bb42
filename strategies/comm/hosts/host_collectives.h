#pragma once
// Collectives among ranks of several hosts: shared memory on each host (local_collectives.h), TCP between the hosts. A
// host is the ranks that can share memory (peers.h), whatever LOCAL_WORLD_SIZE says. One rank of each host is its
// leader: the root, on the root's host; the first rank, on the others.
//
//   all_reduce, reduce   reduced on each host | among the leaders: up to 64 KiB, each sends its own to all; larger,
//   slice
//                        by slice, each leader reduces one slice | all_reduce: broadcast on each host
//   broadcast            root to leaders: to one leader, or up to 64 KiB, directly; else a slice to each leader, and
//   the
//                        leaders exchange their slices | broadcast on each host
//   all_gather           gathered on each host | among the leaders | broadcast on each host
//   reduce_scatter       reduced on each host, a part for every rank | each leader receives and reduces the parts of
//   its
//                        host | scattered on each host
//   gather, scatter, all_to_all   on one host through shared memory, between ranks of different hosts directly
//
// A reduction goes in the order of the ranks on each host, and then in the order of the hosts' first ranks: for one
// distribution of ranks over hosts the result has the same bits on every rank and in every run. With one rank on each
// host the result is that of one host with these ranks. Otherwise float16 and bfloat16 are rounded once on each host
// and once more between the hosts; and an average is divided on each host, so that a sum larger than the type's largest
// number does no harm.
//
// A rank that throws a failure tells it to all other hosts at once. If two failures happen at the same moment, ranks of
// different hosts may report different ones. If a rank is late, all ranks wait a little longer, to find out whether the
// late rank itself waits, and for whom (blame.h).
#include <vector>

#include "dtrain/errors.h"
#include "strategies/comm/bootstrap/group_store.h"
#include "strategies/comm/bootstrap/peers.h"
#include "strategies/comm/local/local_collectives.h"
#include "strategies/comm/tcp/tcp_links.h"

namespace dtrain {

// One thread at a time, except tell().
class HostCollectives {
 public:
  // Collective; `facts` are those of all ranks (meet()), and `local` outlives this. Throws std::runtime_error where a
  // rank cannot be reached, CollectiveError where one dies meanwhile.
  HostCollectives(GroupStore& store, const std::vector<PeerFacts>& facts, int rank, LocalCollectives& local,
                  ShmWait::Deadline deadline);
  HostCollectives(const HostCollectives&) = delete;
  HostCollectives& operator=(const HostCollectives&) = delete;

  // See CommGroup.
  void barrier(const CollectiveCall& call);
  void all_reduce(const CollectiveCall& call, std::byte* data, std::size_t count);
  void broadcast(const CollectiveCall& call, std::byte* data, std::size_t bytes, int root);
  void all_gather(const CollectiveCall& call, const std::byte* input, const std::vector<std::byte*>& outputs,
                  std::size_t bytes);
  void reduce(const CollectiveCall& call, std::byte* data, std::size_t count, int root);
  void gather(const CollectiveCall& call, const std::byte* input, const std::vector<std::byte*>& outputs,
              std::size_t bytes, int root);
  void scatter(const CollectiveCall& call, const std::vector<const std::byte*>& inputs, std::byte* output,
               std::size_t bytes, int root);
  void all_to_all(const CollectiveCall& call, Inputs inputs, Outputs outputs);
  void reduce_scatter(const CollectiveCall& call, const std::vector<const std::byte*>& inputs, std::byte* output,
                      std::size_t count);

  // The ranks of other hosts, in the order of the hosts, and the connections to them.
  std::vector<int> others() const;
  TcpLinks& links() { return links_; }
  // Tell the other hosts of the group's failure, if it has one. Any thread.
  void tell() noexcept { links_.tell(); }
  // Tell the other hosts that this rank leaves.
  void leave() noexcept { links_.leave(); }

 private:
  using Receives = std::vector<TcpLinks::Receive>;
  using Sends = std::vector<TcpLinks::Send>;
  // One rank of each host, in the order of the hosts.
  using Leaders = std::vector<int>;

  // A message of at most kWholeBytes goes to all leaders at once. Of a larger one, kChunkBytes are under way at a time.
  static constexpr std::size_t kWholeBytes = 64U << 10;
  static constexpr std::size_t kChunkBytes = 8U << 20;

  // Carry out the steps of a call, and tell the other hosts if they fail.
  template <class Steps>
  void run(const CollectiveCall& call, Steps steps) {
    try {
      if (local_.wait().failed()) local_.wait().check(call.name());
      steps();
    } catch (const CollectiveError&) {
      tell();
      throw;
    }
  }

  Leaders leaders(int root = -1) const;
  bool leads(const Leaders& leaders) const { return leaders[here_] == rank_; }
  const std::vector<int>& members() const { return hosts_[here_]; }
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  bool is_here(int rank) const { return local_.segment().rank(rank).seat >= 0; }
  void broadcast_gathered(const CollectiveCall& call, int leader, const std::vector<std::byte*>& outputs,
                          std::size_t bytes);

  // Among leaders alone.
  void reduce_between(const CollectiveCall& call, const Leaders& leaders, std::byte* data, std::size_t count);
  void reduce_slices(const CollectiveCall& call, const Leaders& leaders, std::byte* data, std::size_t count);
  void reduce_to(const CollectiveCall& call, const Leaders& leaders, int root, std::byte* data, std::size_t count);
  void broadcast_between(const CollectiveCall& call, const Leaders& leaders, int root, std::byte* data,
                         std::size_t bytes);
  void broadcast_slices(const CollectiveCall& call, Leaders leaders, int root, std::byte* data, std::size_t bytes);
  // Reduce the rows of all hosts, in their order: `own` is this host's, `staging` holds those of the others.
  void reduce_rows(const CollectiveCall& call, const std::byte* own, const std::vector<std::byte>& staging,
                   std::byte* out, std::size_t count) const;

  const int rank_;
  const std::vector<std::vector<int>> hosts_;
  const std::size_t here_;   // which of the hosts is this one
  const std::size_t ranks_;  // of all hosts
  const bool layered_;       // some host has several ranks
  LocalCollectives& local_;
  TcpLinks links_;
};

}  // namespace dtrain
