#pragma once
// What a process group asks of its CPU collectives, wherever its ranks run: ShmGroup on one host, HostsGroup on
// several.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strategies/comm/element.h"
#include "strategies/comm/p2p.h"
#include "strategies/comm/peers.h"

namespace dtrain {

struct SegmentHeader;

struct GroupOptions {
  int rank = 0;
  int ranks = 1;
  std::uint32_t slot_bytes = 1U << 20;  // memory on each host: 2 * its ranks * slot_bytes, as far as it is used
  std::chrono::milliseconds join_timeout{300'000};  // for all ranks to come, meet and connect
};

// What a rank has for each rank, and where what it gets from each goes.
using Inputs = std::span<const std::span<const std::byte>>;
using Outputs = std::span<const std::span<std::byte>>;

// Collectives on plain bytes. One thread at a time, except abort(), stop() and p2p().
class CommGroup {
 public:
  CommGroup() = default;
  CommGroup(const CommGroup&) = delete;
  CommGroup& operator=(const CommGroup&) = delete;
  // Tells the others that this rank left, unless a child forked from it says so. No collective.
  virtual ~CommGroup() = default;

  using Timeout = std::chrono::milliseconds;

  // All of these are collectives; they throw CollectiveError. Buffers of two ranks are never the same memory.
  virtual void barrier(Timeout timeout) = 0;
  virtual void all_reduce(std::byte* data, std::size_t count, ElementType type, Reduction reduction,
                          Timeout timeout) = 0;
  virtual void broadcast(std::byte* data, std::size_t bytes, int root, Timeout timeout) = 0;
  // outputs[r] receives the `bytes` bytes of rank r.
  virtual void all_gather(const std::byte* input, const std::vector<std::byte*>& outputs, std::size_t bytes,
                          Timeout timeout) = 0;
  // The root's `data` receives what all_reduce would give; the others' stays as it is.
  virtual void reduce(std::byte* data, std::size_t count, ElementType type, Reduction reduction, int root,
                      Timeout timeout) = 0;
  // At the root outputs[r] receives the `bytes` bytes of rank r; elsewhere there are none.
  virtual void gather(const std::byte* input, const std::vector<std::byte*>& outputs, std::size_t bytes, int root,
                      Timeout timeout) = 0;
  // At the root inputs[r] holds `bytes` bytes for rank r; elsewhere there are none.
  virtual void scatter(const std::vector<const std::byte*>& inputs, std::byte* output, std::size_t bytes, int root,
                       Timeout timeout) = 0;
  // inputs[r] goes to rank r's outputs[this rank], which has the same size; sizes may all differ.
  virtual void all_to_all(Inputs inputs, Outputs outputs, Timeout timeout) = 0;
  // inputs[r] holds `count` elements for rank r; output receives this rank's reduced.
  virtual void reduce_scatter(const std::vector<const std::byte*>& inputs, std::byte* output, std::size_t count,
                              ElementType type, Reduction reduction, Timeout timeout) = 0;

  // Messages between two ranks, at the same time as collectives. Any thread. Not in a forked child.
  virtual P2p& p2p() = 0;

  // Throw this failure on this rank, and for all others, running and later collectives too, if the group has none yet.
  [[noreturn]] virtual void fail(const Failure& failure, const std::string& during, const std::string& detail) = 0;
  // Break the group for all ranks: running and later collectives throw FailureKind::aborted. Any thread.
  virtual void abort() noexcept = 0;
  // Make only this process's collectives throw. Any thread.
  virtual void stop() noexcept = 0;

  // Of the memory that the ranks of this host share, with the group's failure.
  virtual SegmentHeader& header() const = 0;

  // Collectives started so far.
  virtual std::uint64_t operations() const = 0;
};

// Collective: shared memory where all ranks can share it, and a HostsGroup where they cannot. Throws
// std::runtime_error where the ranks cannot meet, CollectiveError where one dies meanwhile.
std::unique_ptr<CommGroup> form_group(MeetingPlace& place, const GroupOptions& options);

}  // namespace dtrain
