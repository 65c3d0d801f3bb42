#pragma once
// Collectives among the ranks of one host over shared memory: those of a group on one host, and the parts on each host
// of a group over several (host_collectives.h). They are made of steps (local_steps.h); a large message is a row of
// steps. A rank's own part goes from its input to its output, not through a slot.
//
//   all_reduce, <= 64 KiB           copy in | sync | every rank reduces everything          1 sync, P+1 reads a byte
//   all_reduce, larger, by parts    copy in for the others | sync | rank r reduces slice r; next part: copy in | sync |
//                                   copy out, rank r reduces slice r of the next part; ...
//   all_reduce, from 8 KiB on, all tensors in arenas (arena.h)
//                                   sync | rank r reduces slice r where it lies, for all | sync
//   reduce                          as all_reduce, but only the root copies out
//   broadcast, all_gather, gather, scatter
//                                   copy in | sync | copy out; a rank that only gives, 4 KiB or less, does not wait for
//                                   the others before its next operation begins, and hears only then of a rank that
//                                   called something else
//   all_to_all                      sizes and a share of a slot for each rank: copy in | sync | copy out
//   these five, from 32 KiB on (broadcast: up to 512 KiB), where ranks may read each other's memory (direct_reads.h)
//                                   each says where its data lies | sync | read | sync
#include <cstddef>
#include <vector>

#include "strategies/comm/local/direct_reads.h"
#include "strategies/comm/local/local_steps.h"
#include "strategies/comm/local/part_lists.h"
#include "strategies/comm/local/reduce.h"

namespace dtrain {

// One thread at a time, except wait().
class LocalCollectives {
 public:
  // Collective, of the members of this segment: they keep the numbers that they have in the whole group. Throws
  // CollectiveError where a member dies meanwhile.
  LocalCollectives(ShmSegment segment, int rank, bool has_cores, ShmWait::Deadline deadline);
  // Tells the others that this rank left, unless this process is a forked child.
  ~LocalCollectives();
  LocalCollectives(const LocalCollectives&) = delete;
  LocalCollectives& operator=(const LocalCollectives&) = delete;

  // Collectives of the members; `call` is what the program called. They throw CollectiveError. Lists are indexed by
  // rank; entries of ranks that are no members are left alone.
  void barrier_here(const CollectiveCall& call) {
    steps_.begin(call);
    steps_.sync_and_compare(call);
  }
  void all_reduce_here(const CollectiveCall& call, std::byte* data, std::size_t count) {
    reductions_.all_reduce(call, data, count);
  }
  // `receives`: this rank gets the result. Averages divide by the ranks of the whole group.
  void reduce_here(const CollectiveCall& call, std::byte* data, std::size_t count, bool receives) {
    reductions_.reduce(call, data, count, receives);
  }
  // Only where all ranks of the group are here.
  void reduce_scatter_here(const CollectiveCall& call, const std::vector<const std::byte*>& inputs, std::byte* output,
                           std::size_t count) {
    reductions_.reduce_scatter(call, inputs, output, count);
  }
  void broadcast_here(const CollectiveCall& call, std::byte* data, std::size_t bytes, int root);
  // `outputs` is empty for a rank that gets nothing.
  void gather_here(const CollectiveCall& call, const std::byte* input, const std::vector<std::byte*>& outputs,
                   std::size_t bytes);
  void scatter_here(const CollectiveCall& call, const std::vector<const std::byte*>& inputs, std::byte* output,
                    std::size_t bytes, int root);
  void all_to_all_here(const CollectiveCall& call, Inputs inputs, Outputs outputs);

  // Throws the group's failure if it has one already.
  void check(const CollectiveCall& call) const {
    if (wait().failed()) wait().check(call.operation());
  }

  const ShmSegment& segment() const { return steps_.segment(); }
  const PeerWatch& watch() const { return steps_.watch(); }
  ShmWait& wait() { return steps_.wait(); }
  const ShmWait& wait() const { return steps_.wait(); }
  // Messages of this size or larger are read directly (direct_reads.h).
  std::uint64_t reads_from() const { return reads_.least(); }

 private:
  void leave() noexcept;
  // These return false if a rank could not read: then the message goes through slots.
  bool broadcast_directly(const CollectiveCall& call, std::byte* data, std::size_t bytes, int root);
  bool gather_directly(const CollectiveCall& call, const std::byte* input, const std::vector<std::byte*>& outputs,
                       std::size_t bytes);
  bool scatter_directly(const CollectiveCall& call, const std::vector<const std::byte*>& inputs, std::byte* output,
                        std::size_t bytes, int root);
  const std::byte* out_of_the_way(const std::byte* input, const std::vector<std::byte*>& outputs,
                                  std::size_t bytes) const;

  const int process_;  // a forked child is not the rank
  LocalSteps steps_;
  DirectReads reads_;
  LocalReductions reductions_;
};

}  // namespace dtrain
