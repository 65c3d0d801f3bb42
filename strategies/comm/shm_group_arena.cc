// Reductions of what lies in arenas; see shm_group.h.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "strategies/comm/shm_group.h"

namespace dtrain {
namespace {

constexpr std::size_t kLeastInArenas = 8 * 1024;  // smaller ones have one synchronisation, which is quicker
constexpr std::chrono::milliseconds kEnding{1000};

}  // namespace

// 0 where it lies elsewhere, or is small.
std::uint64_t ShmGroup::place_of(const std::byte* data, std::size_t bytes) {
  const Arena* arena = bytes < kLeastInArenas ? nullptr : Arena::known();
  if (arena == nullptr || !arena->holds(data, bytes)) return 0;
  segment_.rank(rank_).arena = arena->key();
  return arena->place(data);
}

// The first step of a reduction: ranks learn where each other's tensors lie. Those whose are in arenas copy theirs into
// slots only if not all are.
bool ShmGroup::meet(const Call& call, std::byte* data, std::size_t count, std::uint64_t place) {
  const std::size_t width = size_of(call.type());
  const bool small = is_small(count * width);
  const auto put = [&] { copy_in(data, small ? count : std::min(step_of(width), count), width, small); };
  begin(call, place);
  if (place == 0) put();
  try {
    sync(call);
  } catch (...) {
    // A rank that is late may yet find all there, and write.
    if (place != 0) Arena::known()->keep(data);
    throw;
  }
  compare(call);
  const auto shared = [this](int rank) { return segment_.rank(rank).places[parity_] != 0; };
  const auto sharing = std::count_if(members().begin(), members().end(), shared);
  if (sharing == 0 || sharing == std::ssize(members())) return sharing > 0;
  if (place != 0) put();
  sync(call);
  return false;
}

std::byte* ShmGroup::in_arena_of(const Call& call, int rank, std::size_t bytes) {
  const RankBlock& block = segment_.rank(rank);
  arenas_.resize(static_cast<std::size_t>(ranks_));
  ArenaMemory& arena = arenas_[static_cast<std::size_t>(rank)];
  if (arena.base() == nullptr) {
    try {
      arena = ArenaMemory::open(block.arena);
    } catch (const std::exception& error) {
      // Of a process that is killed the kernel closes the files first, and tells that it has ended later.
      if (watch_.ends_within(rank, kEnding)) wait_.fail({FailureKind::peer_died, rank}, call.name(), "");
      throw std::runtime_error(
          fmt::format("dtrain: cannot map the shared tensors of rank {} (pid {}): {}", rank, block.pid, error.what()));
    }
  }
  const std::uint64_t place = block.places[parity_];
  if (place > arena.key().bytes || arena.key().bytes - place < bytes)
    throw std::runtime_error(fmt::format("dtrain: rank {} has no such tensor in its shared memory", rank));
  return arena.base() + place;
}

void ShmGroup::reduce_in_arenas(const Call& call, std::byte* data, std::size_t count) {
  const std::size_t width = size_of(call.type());
  try {
    wait_.check(call.name());
    std::vector<std::byte*> tensors;
    for (const int r : members()) tensors.push_back(r == rank_ ? data : in_arena_of(call, r, count * width));
    // Only this rank reads and writes this slice, of all tensors.
    const Slice own = slice(rank_, count, width);
    for (std::size_t done = 0; done < own.bytes; done += kBlockBytes) {
      const std::size_t at = own.at + done, bytes = std::min(kBlockBytes, own.bytes - done);
      sources_.clear();
      for (const std::byte* tensor : tensors) sources_.push_back(tensor + at);
      reduce_sources(call, data + at, bytes / width);
      for (std::byte* tensor : tensors) {
        if (tensor != data) std::memcpy(tensor + at, data + at, bytes);
      }
    }
    sync(call);
  } catch (...) {
    Arena::known()->keep(data);  // a rank that is late may yet write there
    throw;
  }
}

}  // namespace dtrain
