// See arena.h.
#include "strategies/comm/arena.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include "strategies/comm/own_process.h"
#include "strategies/comm/peers.h"

namespace dtrain {
namespace {

constexpr std::size_t kPage = 4096;

std::atomic<Arena*> the_arena{nullptr};

// Each of a host's ranks maps those of all others, once for each group.
constexpr std::size_t kMost = std::size_t{64} << 30;

// All of the machine's memory, or the largest file that this process may make.
std::size_t arena_bytes() {
  rlimit space{};
  if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    throw std::runtime_error("the address space is limited, see ulimit -v");
  const std::size_t memory =
      static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return std::min({memory, kMost, limited ? static_cast<std::size_t>(limit.rlim_cur) : memory}) / kPage * kPage;
}

}  // namespace

ArenaMemory ArenaMemory::create() {
  ArenaMemory arena;
  arena.memory_ = SharedMemory::create("dtrain-arena", arena_bytes());
  arena.key_ = {own_facts().proc_pid, arena.memory_.fd(), random_token(), arena.memory_.bytes()};
  *reinterpret_cast<std::uint64_t*>(arena.base()) = arena.key_.token;
  return arena;
}

ArenaMemory ArenaMemory::open(const ArenaKey& key) {
  ArenaMemory arena;
  arena.memory_ = SharedMemory::open(key.pid, key.fd);
  if (arena.memory_.bytes() != key.bytes || *reinterpret_cast<const std::uint64_t*>(arena.base()) != key.token)
    throw std::runtime_error(SharedMemory::path(key.pid, key.fd) + " is not the arena of that rank");
  arena.key_ = key;
  arena.memory_.close_fd();
  ::madvise(arena.base(), key.bytes, MADV_DONTDUMP);  // its owner's core has it
  return arena;
}

void ArenaMemory::forget(std::size_t at, std::size_t bytes) const noexcept {
  ::madvise(base() + at, bytes, MADV_REMOVE);
}

Arena::Arena(ArenaMemory memory)
    : process_(own_process()), memory_(std::move(memory)), plan_(memory_.key().bytes, kPage) {
  plan_.allocate(kPage);  // the token's
}

Arena* Arena::own() {
  static const bool made = [] {
    try {
      the_arena = new Arena(ArenaMemory::create());
      return true;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "dtrain: no memory to share with the other ranks (%s); tensors are copied instead\n",
                   error.what());
      return false;
    }
  }();
  return made ? the_arena.load() : nullptr;
}

Arena* Arena::known() { return the_arena.load(std::memory_order_acquire); }

std::byte* Arena::allocate(std::size_t bytes) {
  if (own_process() != process_) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto at = plan_.allocate(bytes);
  return at ? memory_.base() + *at : nullptr;
}

void Arena::free(std::byte* data) {
  if (own_process() != process_) return;
  const std::lock_guard lock(mutex_);
  if (const auto freed = plan_.release(place(data))) memory_.forget(freed->at, freed->bytes);
}

void Arena::keep(const std::byte* data) {
  const std::lock_guard lock(mutex_);
  plan_.keep(place(data));
}

}  // namespace dtrain
