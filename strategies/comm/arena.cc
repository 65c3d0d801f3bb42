// See arena.h.
#include "strategies/comm/arena.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "strategies/comm/own_process.h"
#include "strategies/comm/peers.h"

namespace dtrain {
namespace {

constexpr std::size_t kPage = 4096;

std::atomic<Arena*> the_arena{nullptr};

[[noreturn]] void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

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

std::uint64_t random_token() {
  std::uint64_t token = 0;
  if (::getrandom(&token, sizeof token, 0) != sizeof token) throw_errno("getrandom");
  return token;
}

}  // namespace

ArenaMemory ArenaMemory::create(std::uint64_t token) {
  const std::size_t bytes = arena_bytes();
  const int fd = ::memfd_create("dtrain-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) throw_errno("memfd_create");
  ArenaMemory memory;
  memory.own_ = true;
  memory.key_ = {own_facts().proc_pid, fd, token, bytes};
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0) throw_errno(fmt::format("{} bytes", bytes));
  // A peer that shrank the file would kill the others with SIGBUS.
  if (::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) throw_errno("sealing");
  memory.base_ = memory.map(fd);
  *reinterpret_cast<std::uint64_t*>(memory.base_) = token;
  return memory;
}

ArenaMemory ArenaMemory::open(const ArenaKey& key) {
  const std::string path = fmt::format("/proc/{}/fd/{}", key.pid, key.fd);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) throw_errno(path);
  ArenaMemory memory;
  memory.key_ = key;
  try {
    struct stat status {};
    if (::fstat(fd, &status) != 0) throw_errno(path);
    if (static_cast<std::uint64_t>(status.st_size) != key.bytes)
      throw std::runtime_error(path + " is not the arena of that rank");
    memory.base_ = memory.map(fd);
    if (*reinterpret_cast<const std::uint64_t*>(memory.base_) != key.token)
      throw std::runtime_error(path + " is not the arena of that rank");
  } catch (...) {
    ::close(fd);
    throw;
  }
  ::close(fd);
  return memory;
}

std::byte* ArenaMemory::map(int fd) {
  void* base = ::mmap(nullptr, key_.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED) throw_errno(fmt::format("mapping {} bytes", key_.bytes));
  if (!own_) ::madvise(base, key_.bytes, MADV_DONTDUMP);  // its owner's core has it
  return static_cast<std::byte*>(base);
}

ArenaMemory::ArenaMemory(ArenaMemory&& other) noexcept
    : key_(std::exchange(other.key_, {})), base_(std::exchange(other.base_, nullptr)), own_(other.own_) {}

ArenaMemory& ArenaMemory::operator=(ArenaMemory&& other) noexcept {
  std::swap(key_, other.key_);
  std::swap(base_, other.base_);
  std::swap(own_, other.own_);
  return *this;
}

ArenaMemory::~ArenaMemory() {
  if (base_ != nullptr) ::munmap(base_, key_.bytes);
  if (own_ && key_.fd >= 0) ::close(key_.fd);
}

void ArenaMemory::forget(std::size_t at, std::size_t bytes) const noexcept {
  ::madvise(base_ + at, bytes, MADV_REMOVE);
}

Arena::Arena(ArenaMemory memory)
    : process_(own_process()), memory_(std::move(memory)), plan_(memory_.key().bytes, kPage) {
  plan_.allocate(kPage);  // the token's
}

Arena* Arena::own() {
  static const bool made = [] {
    try {
      the_arena = new Arena(ArenaMemory::create(random_token()));
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
