// See arena.h.
#include "strategies/comm/memory/arena.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "strategies/comm/base/forked_children.h"
#include "strategies/comm/base/own_process.h"
#include "strategies/comm/memory/page.h"

namespace dtrain {
namespace {

// How own() makes the arena: it tries once in a process.
struct Making {
  std::mutex mutex;
  bool tried = false;
  bool watches_forks = false;
};

Making& making() {
  static auto* one = new Making;
  return *one;
}

// The largest arena. A rank maps the arenas of all other ranks of its host, once for each group.
constexpr std::size_t kMostBytes = std::size_t{64} << 30;

// The size of the arena: all of the machine's memory, or the largest file that this process may make.
std::size_t arena_bytes() {
  rlimit space{};
  if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    throw std::runtime_error("the address space is limited, see ulimit -v");
  const std::size_t memory =
      static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return std::min({memory, kMostBytes, limited ? static_cast<std::size_t>(limit.rlim_cur) : memory}) / kPage * kPage;
}

}  // namespace

ArenaMemory ArenaMemory::create() {
  ArenaMemory arena;
  arena.memory_ = SharedMemory::create("dtrain-arena", arena_bytes());
  arena.key_ = {own_proc_pid(), arena.memory_.fd(), random_token(), arena.memory_.bytes()};
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
  ::madvise(arena.base(), key.bytes, MADV_DONTDUMP);  // the owner's core dump has it
  return arena;
}

// In a forked child the arena is a copy, which is no file.
void ArenaMemory::forget(std::size_t at, std::size_t bytes) const noexcept {
  ::madvise(base() + at, bytes, memory_.fd() < 0 ? MADV_DONTNEED : MADV_REMOVE);
}

std::atomic<Arena*> Arena::the_own_{nullptr};

Arena::Arena(ArenaMemory memory) : memory_(std::move(memory)), plan_(memory_.key().bytes, kPage) {
  plan_.allocate(kPage);  // for the token
}

Arena* Arena::own() {
  if (Arena* const arena = known()) return arena;
  const std::lock_guard lock(making().mutex);
  if (!std::exchange(making().tried, true)) the_own_ = make();
  return known();
}

// no_longer_hide() has watched forks for longer, so at a fork its lock is taken after this arena's.
Arena* Arena::make() try {
  auto* const arena = new Arena(ArenaMemory::create());
  no_longer_hide(arena->memory_.base());
  if (making().watches_forks) return arena;
  const int error = ::pthread_atfork(before_fork, after_fork, in_child);
  if (error != 0) throw std::system_error(error, std::generic_category(), "pthread_atfork");
  making().watches_forks = true;
  return arena;
} catch (const std::exception& error) {
  std::fprintf(stderr, "dtrain: no memory to share with the other ranks (%s); tensors are copied instead\n",
               error.what());
  return nullptr;
}

void Arena::before_fork() {
  making().mutex.lock();
  Arena* const arena = known();
  if (arena == nullptr) return;
  arena->mutex_.lock();
  arena->copied_ = arena->copy_.update(arena->memory_.memory(), arena->plan_.end());
  if (!arena->copied_)
    std::fprintf(stderr,
                 "dtrain: no memory to copy %zu bytes of shared tensors for a forked process; it will see what "
                 "this one writes there\n",
                 arena->plan_.end());
}

void Arena::after_fork() {
  if (Arena* const arena = known()) arena->mutex_.unlock();
  making().mutex.unlock();
}

void Arena::in_child() {
  if (Arena* const parents = known()) {
    parents->copy_.take_place_of(parents->memory_.memory(), parents->plan_.end());
    parents->copied_ = false;
    parents->mutex_.unlock();
  }
  the_own_ = nullptr;
  making().tried = false;
  making().mutex.unlock();
}

void Arena::forget_copy() {
  const std::lock_guard lock(mutex_);
  copy_.drop();
  copied_ = false;
}

std::byte* Arena::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (memory_.memory().fd() < 0) return nullptr;  // this arena is a parent's
  const auto at = plan_.allocate(bytes);
  return at ? memory_.base() + *at : nullptr;
}

void Arena::free(std::byte* data) {
  const std::lock_guard lock(mutex_);
  if (const auto freed = plan_.release(place(data))) memory_.forget(freed->at, freed->bytes);
}

void Arena::keep(const std::byte* data) {
  const std::lock_guard lock(mutex_);
  plan_.keep(place(data));
}

}  // namespace dtrain
