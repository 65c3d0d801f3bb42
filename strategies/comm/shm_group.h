#pragma once
// Collectives among the processes of one host over shared memory.
//
// Each rank has two slots, used in turn by successive operations (a large message is a row of operations). A rank
// copies its input into its slot, arrives, waits for all, and reads the others' slots. It touches the same slot again
// two operations later, after a synchronisation that nobody passes before being done with the first: so an operation
// needs no closing barrier. What a rank has for itself goes from its input to its output. A slot's second half is for
// results: the others may still copy those out while the rank copies a later part into the first half.
//
//   all_reduce, count <= 64 KiB     copy in | sync | every rank reduces everything          1 sync, P+1 reads a byte
//   all_reduce, larger, by parts    copy in for the others | sync | rank r reduces slice r; next part: copy in | sync |
//                                   copy out, rank r reduces slice r of the next part; ...
//   all_reduce, from 8 KiB on, all in arenas (arena.h)
//                                   sync | rank r reduces slice r where it lies, for all | sync
//   reduce                          as all_reduce, but only the root copies out
//   broadcast, all_gather, gather, scatter
//                                   copy in | sync | copy out; who only gives, 4 KiB or less, does not wait for the
//                                   others before its next operation begins, and hears only then of one that called
//                                   something else
//   all_to_all                      sizes and a share of a slot for each: copy in | sync | copy out
//   these five, from 32 KiB on (broadcast: up to 512 KiB), where ranks may read each other's memory (docs/adr/0612)
//                                   where it lies | sync | read | sync
#include <optional>

#include "strategies/comm/arena.h"
#include "strategies/comm/cache_line.h"
#include "strategies/comm/call.h"
#include "strategies/comm/group.h"

namespace dtrain {

class ShmGroup final : public CommGroup {
 public:
  using Deadline = ShmWait::Deadline;

  // Collective, of the members of this memory: they are the group, under the numbers that they have in the whole one.
  // Averages divide by all its ranks. `has_cores`: see peers.h. Throws CollectiveError where one dies meanwhile.
  ShmGroup(ShmSegment segment, int rank, bool has_cores, Deadline deadline);
  ~ShmGroup() override;

  void barrier(Timeout timeout) override;
  void all_reduce(std::byte* data, std::size_t count, ElementType type, Reduction reduction, Timeout timeout) override;
  void broadcast(std::byte* data, std::size_t bytes, int root, Timeout timeout) override;
  void all_gather(const std::byte* input, const std::vector<std::byte*>& outputs, std::size_t bytes,
                  Timeout timeout) override;
  void reduce(std::byte* data, std::size_t count, ElementType type, Reduction reduction, int root,
              Timeout timeout) override;
  void gather(const std::byte* input, const std::vector<std::byte*>& outputs, std::size_t bytes, int root,
              Timeout timeout) override;
  void scatter(const std::vector<const std::byte*>& inputs, std::byte* output, std::size_t bytes, int root,
               Timeout timeout) override;
  void all_to_all(Inputs inputs, Outputs outputs, Timeout timeout) override;
  void reduce_scatter(const std::vector<const std::byte*>& inputs, std::byte* output, std::size_t count,
                      ElementType type, Reduction reduction, Timeout timeout) override;

  P2p& p2p() override { return *p2p_; }
  [[noreturn]] void fail(const Failure& failure, const std::string& during, const std::string& detail) override {
    wait_.fail(failure, during, detail);
  }
  void abort() noexcept override;
  void stop() noexcept override { wait_.request_stop(); }
  SegmentHeader& header() const override { return segment_.header(); }
  std::uint64_t operations() const override { return operations_; }

  // What collectives are made of, among the members alone; `call` is what the program called. Lists are indexed by
  // rank; what is not a member's is left alone.
  void sync_all(const Call& call);
  // `receives`: this rank gets the result. `place`: of `data` in this rank's arena, or 0.
  void reduce_all(const Call& call, std::byte* data, std::size_t count, bool receives, std::uint64_t place = 0);
  void spread(const Call& call, std::byte* data, std::size_t bytes, int root);
  // `outputs` is empty where nothing is wanted.
  void collect(const Call& call, const std::byte* input, const std::vector<std::byte*>& outputs, std::size_t bytes);
  void deal(const Call& call, const std::vector<const std::byte*>& inputs, std::byte* output, std::size_t bytes,
            int root);
  void exchange(const Call& call, Inputs inputs, Outputs outputs);
  const ShmSegment& segment() const { return segment_; }
  // From so many bytes on members read each other's memory; the largest number: never.
  std::uint64_t reads_from() const { return least_direct_; }
  ShmWait& waiting() { return wait_; }

 private:
  static constexpr std::size_t kOneShotBytes = 64 * 1024;
  static constexpr std::size_t kPartBytes = 512 * 1024;  // of a larger message: stays in a core's own cache meanwhile
  static constexpr std::size_t kBlockBytes = 32 * 1024;  // of results: still in the nearest cache when they are copied

  void join();
  void leave() noexcept;
  void begin(const Call& call, std::uint64_t place = 0);
  void sync(const Call& call);
  // In place of sync() and compare(), where this rank needs nothing of the others and what it gives is small.
  void go_ahead_or_meet(const Call& call, std::size_t bytes);
  void compare(const Call& call);
  std::byte* slot(int rank) const { return segment_.slot(rank, parity_); }
  std::size_t seat(int rank) const { return static_cast<std::size_t>(segment_.rank(rank).seat); }
  const std::vector<int>& members() const { return segment_.members(); }
  bool is_small(std::size_t bytes) const;
  std::size_t step_of(std::size_t width) const;
  // Of a reduction. meet() ends with the first part in all slots, or returns that all have theirs in arenas.
  bool meet(const Call& call, std::byte* data, std::size_t count, std::uint64_t place);
  void copy_in(const std::byte* data, std::size_t count, std::size_t width, bool whole);
  void reduce_small(const Call& call, std::byte* data, std::size_t count);
  void reduce_parts(const Call& call, std::byte* data, std::size_t count, bool receives);
  void reduce_slice(const Call& call, std::byte* data, std::size_t count, bool receives);
  std::byte* results(int rank, std::uint32_t parity) const { return segment_.slot(rank, parity) + slot_bytes_ / 2; }
  std::uint64_t place_of(const std::byte* data, std::size_t bytes);
  std::byte* in_arena_of(const Call& call, int rank, std::size_t bytes);
  void reduce_in_arenas(const Call& call, std::byte* data, std::size_t count);
  void reduce_sources(const Call& call, std::byte* out, std::size_t count);
  struct Slice {
    std::size_t at, bytes;
  };
  Slice slice(int rank, std::size_t count, std::size_t width) const;
  // Of an all_to_all: the largest parts that go through slots and that do not, and where the others' for this rank are
  // to be read.
  struct Parts {
    std::size_t largest = 0, largest_direct = 0;
    std::vector<std::uint64_t> places;  // by rank; 0: in its slot. Empty: all are
    bool any_direct = false;
  };
  Parts agree_on_parts(const Call& call);
  // While the group forms, each of all members. `sample`: what the others read.
  std::vector<CacheLine> offer_sample() const;
  void agree_on_reads(std::vector<CacheLine>& sample, const std::function<void()>& meet);
  bool may_read_all() const;
  bool reading_pays(std::vector<CacheLine>& sample, const std::function<void()>& meet) const;
  std::uint64_t largest_bound() const;
  bool is_direct(std::size_t bytes) const { return bytes >= least_direct_; }
  // Of another member's own memory. Both throw as a wait does.
  bool read(const Call& call, int rank, std::uint64_t from, std::span<std::byte> into);
  bool all_have_read(const Call& call, bool well);
  bool spread_direct(const Call& call, std::byte* data, std::size_t bytes, int root);
  const std::byte* out_of_the_way(const std::byte* input, const std::vector<std::byte*>& outputs,
                                  std::size_t bytes) const;
  bool collect_direct(const Call& call, const std::byte* input, const std::vector<std::byte*>& outputs,
                      std::size_t bytes);
  bool deal_direct(const Call& call, const std::vector<const std::byte*>& inputs, std::byte* output, std::size_t bytes,
                   int root);
  static std::uint64_t place(const std::byte* data) { return reinterpret_cast<std::uint64_t>(data); }
  std::uint64_t place_at(int rank) const { return segment_.rank(rank).places[parity_]; }

  const int process_;  // a forked child is not the rank
  const int rank_;
  const Deadline join_deadline_;
  ShmSegment segment_;
  const int ranks_;
  const std::uint32_t slot_bytes_;
  PeerWatch watch_;
  ShmWait wait_;
  std::unique_ptr<P2p> p2p_;
  std::uint64_t least_direct_ = 0;         // so many bytes are read where they lie
  std::uint64_t operations_ = 0;           // what the user calls a collective
  std::uint32_t point_ = 0;                // synchronisation points reached
  std::uint32_t parity_ = 1;               // which of the two slots the current step uses
  std::optional<Call> ahead_of_;           // the last step, where this rank has not waited for the others
  std::vector<const std::byte*> sources_;  // of a reduction
  std::vector<ArenaMemory> arenas_;        // of the others, by rank; empty until met
};

}  // namespace dtrain
