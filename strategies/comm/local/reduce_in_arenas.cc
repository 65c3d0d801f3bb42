// Reductions of tensors that lie in arenas (arena.h): nothing is copied; see reduce.h.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "strategies/comm/local/reduce.h"

namespace dtrain {
namespace {

constexpr std::size_t kLeastInArenas = 8 * 1024;  // a smaller message through slots has one synchronisation less
constexpr std::chrono::milliseconds kEnding{1000};

}  // namespace

// 0: the tensor lies elsewhere, or is small.
std::uint64_t LocalReductions::place_in_arena(const std::byte* data, std::size_t bytes) const {
  const Arena* arena = bytes < kLeastInArenas ? nullptr : Arena::known();
  if (arena == nullptr || !arena->holds(data, bytes)) return 0;
  steps_.own_block().arena = arena->key();
  return arena->place(data);
}

// The tensor of another member in this step.
std::byte* LocalReductions::in_arena_of(const CollectiveCall& call, int member, std::size_t bytes) {
  const RankBlock& block = steps_.block(member);
  arenas_.resize(static_cast<std::size_t>(steps_.ranks));
  ArenaMemory& arena = arenas_[static_cast<std::size_t>(member)];
  if (arena.base() == nullptr) {
    try {
      arena = ArenaMemory::open(block.arena);
    } catch (const std::exception& error) {
      // When a process is killed, the kernel closes its files before it tells that the process has ended.
      if (steps_.watch().ends_within(member, kEnding))
        steps_.wait().fail({FailureKind::peer_died, member}, call.name(), "");
      throw std::runtime_error(fmt::format("dtrain: cannot map the shared tensors of rank {} (pid {}): {}", member,
                                           block.pid, error.what()));
    }
  }
  const std::uint64_t place = steps_.place(member);
  if (place > arena.key().bytes || arena.key().bytes - place < bytes)
    throw std::runtime_error(fmt::format("dtrain: rank {} has no such tensor in its shared memory", member));
  return arena.base() + place;
}

void LocalReductions::reduce_in_arenas(const CollectiveCall& call, std::byte* data, std::size_t count) {
  const std::size_t width = size_of(call.type());
  try {
    steps_.wait().check(call.name());
    std::vector<std::byte*> tensors;
    for (const int r : steps_.members())
      tensors.push_back(r == steps_.rank ? data : in_arena_of(call, r, count * width));
    // Only this rank reads and writes this slice, in all tensors.
    const Slice own = slice(steps_.rank, count, width);
    for (std::size_t done = 0; done < own.bytes; done += kBlockBytes) {
      const std::size_t at = own.at + done, bytes = std::min(kBlockBytes, own.bytes - done);
      sources_.clear();
      for (const std::byte* tensor : tensors) sources_.push_back(tensor + at);
      reduce_sources(call, data + at, bytes / width);
      for (std::byte* tensor : tensors) {
        if (tensor != data) std::memcpy(tensor + at, data + at, bytes);
      }
    }
    steps_.sync(call);
  } catch (...) {
    Arena::known()->keep(data);  // a rank that is late may yet write into this tensor
    throw;
  }
}

}  // namespace dtrain
