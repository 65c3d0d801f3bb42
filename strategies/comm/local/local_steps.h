#pragma once
// The steps that collectives among the ranks of one host are made of. In a step each rank writes what the others need
// into its slot, all ranks synchronise, and each rank reads the others' slots.
//
// Each rank has two slots, used in turn by successive steps. A rank writes into the same slot again two steps later,
// after a synchronisation that no rank passes before it is done with the first step: so a step needs no closing
// barrier. A slot's second half is for results: the others may still copy those out while the rank copies a later part
// into the first half.
#include <optional>
#include <vector>

#include "strategies/comm/memory/collective_call.h"
#include "strategies/comm/memory/shm_segment.h"
#include "strategies/comm/memory/shm_wait.h"

namespace dtrain {

// One thread at a time, except wait().
class LocalSteps {
 public:
  // `has_cores`: see peers.h. The members of the segment are the ranks of this host.
  LocalSteps(ShmSegment segment, int rank, bool has_cores);
  LocalSteps(const LocalSteps&) = delete;
  LocalSteps& operator=(const LocalSteps&) = delete;

  // While the group forms: notice the end of a member's process, from now on.
  void watch_members();
  // While the group forms: return when all members are here. Throws CollectiveError.
  void meet(ShmWait::Deadline deadline);
  // All members have mapped the segment.
  void close_segment() { segment_.close_fd(); }

  // Start a step: the other slot, and what this rank calls, for the others to compare with. `place`: see RankBlock.
  void begin(const CollectiveCall& call, std::uint64_t place = 0);
  // Return when all members have reached this point. Throws CollectiveError, as all that follow.
  void sync(const CollectiveCall& call);
  // Fails the group unless all members call the same in this step.
  void compare(const CollectiveCall& call);
  void sync_and_compare(const CollectiveCall& call) {
    sync(call);
    compare(call);
  }
  // In place of sync_and_compare(), for a rank that reads nothing of the others and gives `bytes`: if these are few, it
  // does not wait here, and begin() of its next step waits and compares instead.
  void go_ahead_or_sync(const CollectiveCall& call, std::size_t bytes);

  const int rank;
  const int ranks;  // of the whole group: averages divide by them
  const std::uint32_t slot_bytes;

  const std::vector<int>& members() const { return segment_.members(); }
  // How many members come before it.
  std::size_t seat(int member) const { return static_cast<std::size_t>(block(member).seat); }
  RankBlock& block(int member) const { return segment_.rank(member); }
  RankBlock& own_block() const { return block(rank); }
  // Which of the two slots this step uses, and those slots.
  std::uint32_t parity() const { return parity_; }
  std::byte* slot(int member) const { return segment_.slot(member, parity_); }
  std::byte* own_slot() const { return slot(rank); }
  // The second half of a member's slot of this parity.
  std::byte* results(int member, std::uint32_t parity) const { return segment_.slot(member, parity) + slot_bytes / 2; }
  // What the member gave begin() in this step.
  std::uint64_t place(int member) const { return block(member).places[parity_]; }

  const ShmSegment& segment() const { return segment_; }
  const PeerWatch& watch() const { return watch_; }
  ShmWait& wait() { return wait_; }
  const ShmWait& wait() const { return wait_; }

 private:
  ShmSegment segment_;
  PeerWatch watch_;
  ShmWait wait_;
  std::uint32_t point_ = 0;                 // synchronisation points reached
  std::uint32_t parity_ = 1;                // of the slot that the current step uses
  std::optional<CollectiveCall> ahead_of_;  // the last step's call, if this rank has not waited for the others in it
};

}  // namespace dtrain
