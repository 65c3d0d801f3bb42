#pragma once
// The reductions among the ranks of one host; local_collectives.h has the steps of each.
#include <cstddef>
#include <vector>

#include "strategies/comm/local/local_steps.h"
#include "strategies/comm/memory/arena.h"

namespace dtrain {

// One thread at a time.
class LocalReductions {
 public:
  explicit LocalReductions(LocalSteps& steps) : steps_(steps) {}

  // See LocalCollectives.
  void all_reduce(const CollectiveCall& call, std::byte* data, std::size_t count);
  void reduce(const CollectiveCall& call, std::byte* data, std::size_t count, bool receives);
  void reduce_scatter(const CollectiveCall& call, const std::vector<const std::byte*>& inputs, std::byte* output,
                      std::size_t count);

 private:
  static constexpr std::size_t kOneShotBytes = 64 * 1024;
  static constexpr std::size_t kPartBytes = 512 * 1024;  // of a larger message: a part stays in a core's own cache
  static constexpr std::size_t kBlockBytes = 32 * 1024;  // of results: copied out while still in the nearest cache

  struct Slice {
    std::size_t at, bytes;
  };

  bool is_small(std::size_t bytes) const { return bytes <= std::min<std::size_t>(kOneShotBytes, steps_.slot_bytes); }
  std::size_t step_of(std::size_t width) const {
    return std::min<std::size_t>(kPartBytes, steps_.slot_bytes / 2) / width;
  }
  // What `member` reduces of `count` elements.
  Slice slice(int member, std::size_t count, std::size_t width) const;

  // The first step. Ends with the first part in all slots; or returns true: the tensors of all members lie in arenas,
  // and nothing was copied. `place`: of `data` in this rank's arena, or 0.
  bool first_step(const CollectiveCall& call, std::byte* data, std::size_t count, std::uint64_t place);
  void copy_in(const std::byte* data, std::size_t count, std::size_t width, bool whole);
  // What follows the first step.
  void reduce_from_slots(const CollectiveCall& call, std::byte* data, std::size_t count, bool receives);
  void reduce_small(const CollectiveCall& call, std::byte* data, std::size_t count);
  void reduce_parts(const CollectiveCall& call, std::byte* data, std::size_t count, bool receives);
  void reduce_slice(const CollectiveCall& call, std::byte* data, std::size_t count, bool receives);
  void reduce_in_arenas(const CollectiveCall& call, std::byte* data, std::size_t count);
  // Reduces what sources_ points to.
  void reduce_sources(const CollectiveCall& call, std::byte* out, std::size_t count);

  std::uint64_t place_in_arena(const std::byte* data, std::size_t bytes) const;
  std::byte* in_arena_of(const CollectiveCall& call, int member, std::size_t bytes);

  LocalSteps& steps_;
  std::vector<const std::byte*> sources_;  // of a reduction, in the order of the members
  std::vector<ArenaMemory> arenas_;        // of the others, by rank; each is mapped when it is first needed
};

}  // namespace dtrain
