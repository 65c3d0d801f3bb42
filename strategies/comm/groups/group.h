#pragma once
// A group of ranks, and its collectives on plain bytes: among the ranks of one host (local_collectives.h), or of
// several (host_collectives.h).
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "strategies/comm/base/failure.h"
#include "strategies/comm/kernels/element.h"
#include "strategies/comm/local/part_lists.h"

namespace dtrain {

class HostCollectives;
class LocalCollectives;
class P2p;
enum class CollectiveOp : std::uint8_t;
struct CollectiveCall;
struct SegmentHeader;

struct GroupOptions {
  int rank = 0;
  int ranks = 1;
  std::uint32_t slot_bytes = 1U << 20;  // memory on each host: up to 2 * its ranks * slot_bytes, as it is used
  std::chrono::milliseconds join_timeout{300'000};  // for all ranks to come, meet and connect
};

// One thread at a time, except fail(), abort(), stop() and p2p(). form_group() makes groups.
class CommGroup {
 public:
  // Of parts that are connected. `between`: null where all ranks are on one host.
  CommGroup(int rank, std::unique_ptr<LocalCollectives> local, std::unique_ptr<P2p> p2p,
            std::unique_ptr<HostCollectives> between);
  CommGroup(const CommGroup&) = delete;
  CommGroup& operator=(const CommGroup&) = delete;
  // Tells the others that this rank left, unless this process is a forked child. Not a collective.
  ~CommGroup();

  using Timeout = std::chrono::milliseconds;

  // All of these are collectives; they throw CollectiveError. Buffers of two ranks are never the same memory.
  void barrier(Timeout timeout);
  void all_reduce(std::byte* data, std::size_t count, ElementType type, Reduction reduction, Timeout timeout);
  void broadcast(std::byte* data, std::size_t bytes, int root, Timeout timeout);
  // outputs[r] receives the `bytes` bytes of rank r.
  void all_gather(const std::byte* input, const std::vector<std::byte*>& outputs, std::size_t bytes, Timeout timeout);
  // The root's `data` receives what all_reduce would give; the others' `data` stays as it is.
  void reduce(std::byte* data, std::size_t count, ElementType type, Reduction reduction, int root, Timeout timeout);
  // At the root, outputs[r] receives the `bytes` bytes of rank r; at other ranks `outputs` is empty.
  void gather(const std::byte* input, const std::vector<std::byte*>& outputs, std::size_t bytes, int root,
              Timeout timeout);
  // At the root, inputs[r] holds `bytes` bytes for rank r; at other ranks `inputs` is empty.
  void scatter(const std::vector<const std::byte*>& inputs, std::byte* output, std::size_t bytes, int root,
               Timeout timeout);
  // inputs[r] goes to rank r's outputs[this rank], which has the same size; sizes may all differ.
  void all_to_all(Inputs inputs, Outputs outputs, Timeout timeout);
  // inputs[r] holds `count` elements for rank r; `output` receives the reduced elements for this rank.
  void reduce_scatter(const std::vector<const std::byte*>& inputs, std::byte* output, std::size_t count,
                      ElementType type, Reduction reduction, Timeout timeout);

  // Messages between two ranks, at the same time as collectives. Any thread. Not in a forked child.
  P2p& p2p() { return *p2p_; }

  // Throw this failure on this rank. If the group has none yet, record it for all ranks: their running and later
  // collectives throw it too. Any thread.
  [[noreturn]] void fail(const Failure& failure, const std::string& during, const std::string& detail);
  // Break the group for all ranks: running and later collectives throw FailureKind::aborted. Any thread.
  void abort() noexcept;
  // Make only this process's collectives throw. Any thread.
  void stop() noexcept;

  // The header of the memory that the ranks of this host share; it holds the group's failure.
  SegmentHeader& header() const;

  // Collectives started so far.
  std::uint64_t operations() const { return operations_; }

  bool spans_hosts() const { return between_ != nullptr; }
  const LocalCollectives& local() const { return *local_; }

 private:
  CollectiveCall next(CollectiveOp op, std::size_t bytes, int root, Timeout timeout);
  CollectiveCall next(CollectiveOp op, std::size_t count, ElementType type, Reduction reduction, int root,
                      Timeout timeout);

  const int process_;  // a forked child is not the rank
  const int rank_;
  // Each refers to those before it.
  std::unique_ptr<LocalCollectives> local_;
  std::unique_ptr<P2p> p2p_;
  std::unique_ptr<HostCollectives> between_;
  std::uint64_t operations_ = 0;
};

}  // namespace dtrain
