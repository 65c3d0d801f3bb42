#pragma once
// Reading what another rank of the host has in its own memory (process_vm_readv), where that is allowed and faster than
// two copies through a slot (docs/adr/0612). A collective that reads has two synchronisations: all ranks have said
// where their data lies; all have read it.
#include <cstdint>
#include <span>
#include <vector>

#include "strategies/comm/local/local_steps.h"
#include "strategies/comm/memory/cache_line.h"

namespace dtrain {

// One thread at a time.
class DirectReads {
 public:
  explicit DirectReads(LocalSteps& steps) : steps_(steps) {}

  // While the group forms, collective: join the others (LocalSteps::meet()), and agree from how many bytes on ranks
  // read each other's memory.
  void agree(ShmWait::Deadline deadline);

  // Messages of this size or larger are read directly; the largest number: none is.
  std::uint64_t least() const { return least_; }
  bool reads(std::size_t bytes) const { return bytes >= least_; }

  // Where the data lies, for the others.
  static std::uint64_t place(const std::byte* data) { return reinterpret_cast<std::uint64_t>(data); }
  // Read another member's memory. False: the kernel does not allow it, or not in this way (memory that a driver maps).
  // Throws CollectiveError where the group has failed or the member's process has ended.
  bool read(const CollectiveCall& call, int member, std::uint64_t from, std::span<std::byte> into);
  // The second synchronisation; `well`: this rank could read. Whether all members could; if not, no rank reads from now
  // on, and this message goes through slots. Throws as a wait does.
  bool all_have_read(const CollectiveCall& call, bool well);

 private:
  using Sample = std::vector<CacheLine>;

  Sample offer_sample() const;
  void agree_on_least(Sample& sample, ShmWait::Deadline deadline);
  std::uint64_t largest_bound() const;
  bool may_read_all() const;
  bool reading_pays(Sample& sample, ShmWait::Deadline deadline) const;

  LocalSteps& steps_;
  std::uint64_t least_ = 0;
};

}  // namespace dtrain
