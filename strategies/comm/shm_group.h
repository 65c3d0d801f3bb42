#pragma once
// Collectives among the processes of one host over shared memory, on plain bytes. One thread at a time, except abort(),
// stop() and p2p().
//
// Each rank has two slots, used in turn by successive operations (a large message is a row of operations). A rank
// copies its input into its slot, arrives, waits for all, and reads the others' slots. It touches the same slot again
// two operations later, after a synchronisation that nobody passes before being done with the first: so an operation
// needs no closing barrier.
//
//   all_reduce, count <= 64 KiB     copy in | sync | every rank reduces everything          1 sync, P+1 reads a byte
//   all_reduce, larger, a chunk     copy in | sync | rank r reduces slice r | sync | copy out
//   reduce                          the same, but only the root copies out
//   broadcast, all_gather, gather, scatter
//                                   copy in | sync | copy out
//   all_to_all                      sizes | sync | for each share of a slot: copy in | sync | copy out
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strategies/comm/element.h"
#include "strategies/comm/peers.h"
#include "strategies/comm/shm_p2p.h"
#include "strategies/comm/shm_wait.h"

namespace dtrain {

class ShmGroup {
 public:
  struct Options {
    int rank = 0;
    int ranks = 1;
    std::uint32_t slot_bytes = 1U << 20;  // memory of the group: 2 * ranks * slot_bytes, as far as it is used
    std::chrono::milliseconds join_timeout{300'000};  // for all ranks to come, meet and map the memory
  };

  // Collective. Throws std::runtime_error where the ranks cannot share memory, CollectiveError where one dies
  // meanwhile.
  ShmGroup(MeetingPlace& place, const Options& options);
  // Tells the others that this rank left, unless a child forked from it says so. No collective.
  ~ShmGroup();
  ShmGroup(const ShmGroup&) = delete;
  ShmGroup& operator=(const ShmGroup&) = delete;

  using Timeout = std::chrono::milliseconds;

  // All of these are collectives; they throw CollectiveError. Buffers of two ranks are never the same memory.
  void barrier(Timeout timeout);
  void all_reduce(std::byte* data, std::size_t count, ElementType type, Reduction reduction, Timeout timeout);
  void broadcast(std::byte* data, std::size_t bytes, int root, Timeout timeout);
  // outputs[r] receives the `bytes` bytes of rank r.
  void all_gather(const std::byte* input, const std::vector<std::byte*>& outputs, std::size_t bytes, Timeout timeout);
  // The root's `data` receives what all_reduce would give; the others' stays as it is.
  void reduce(std::byte* data, std::size_t count, ElementType type, Reduction reduction, int root, Timeout timeout);
  // At the root outputs[r] receives the `bytes` bytes of rank r; elsewhere there are none.
  void gather(const std::byte* input, const std::vector<std::byte*>& outputs, std::size_t bytes, int root,
              Timeout timeout);
  // At the root inputs[r] holds `bytes` bytes for rank r; elsewhere there are none.
  void scatter(const std::vector<const std::byte*>& inputs, std::byte* output, std::size_t bytes, int root,
               Timeout timeout);
  // inputs[r] goes to rank r's outputs[this rank], which has the same size; sizes may all differ.
  void all_to_all(const std::vector<std::span<const std::byte>>& inputs,
                  const std::vector<std::span<std::byte>>& outputs, Timeout timeout);
  // inputs[r] holds `count` elements for rank r; output receives this rank's reduced.
  void reduce_scatter(const std::vector<const std::byte*>& inputs, std::byte* output, std::size_t count,
                      ElementType type, Reduction reduction, Timeout timeout);

  // Messages between two ranks, at the same time as collectives. Any thread. Not in a forked child.
  ShmP2p& p2p() { return *p2p_; }

  // Break the group for all ranks: running and later collectives throw FailureKind::aborted. Any thread.
  void abort() noexcept;
  // Make only this process's collectives throw. Any thread.
  void stop() noexcept { wait_.request_stop(); }

  // Collectives started so far.
  std::uint64_t operations() const { return operations_; }

 private:
  enum class Op : std::uint8_t {
    barrier = 1,
    all_reduce,
    broadcast,
    all_gather,
    reduce_scatter,
    reduce,
    gather,
    scatter,
    all_to_all
  };
  struct Call;  // one collective in progress

  void join();
  void leave() noexcept;
  void begin(const Call& call);
  void sync(const Call& call);
  void compare(const Call& call);
  std::byte* slot(int rank) const { return segment_.slot(rank, parity_); }
  // `receives`: this rank gets the result.
  void reduce_all(const Call& call, std::byte* data, std::size_t count, bool receives);
  void reduce_one_shot(const Call& call, std::byte* data, std::size_t count, bool receives);
  void reduce_sliced(const Call& call, std::byte* data, std::size_t count, bool receives);
  void gather_all(const Call& call, const std::byte* input, const std::vector<std::byte*>& outputs, std::size_t bytes);
  std::size_t agree_on_parts(const Call& call, const std::vector<std::span<const std::byte>>& inputs,
                             const std::vector<std::span<std::byte>>& outputs);

  const int process_;  // a forked child is not the rank
  const int rank_;
  const int ranks_;
  const std::uint32_t slot_bytes_;
  const ShmWait::Deadline join_deadline_;
  ShmSegment segment_;
  PeerWatch watch_;
  ShmWait wait_;
  std::unique_ptr<ShmP2p> p2p_;
  std::uint64_t operations_ = 0;  // what the user calls a collective
  std::uint32_t point_ = 0;       // synchronisation points reached
  std::uint32_t parity_ = 1;      // which of the two slots the current step uses
};

}  // namespace dtrain
