#include "strategies/kept/kept_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "dtrain/errors.h"
#include "strategies/checkpoint/stored_type.h"
#include "strategies/kept/available_memory.h"

namespace dtrain::kept {
namespace {

using checkpoint::Refused;

// Between two looks at how much memory is left.
constexpr std::uint64_t kReserveAtOnce = std::uint64_t{64} << 20;
constexpr double kMiB = 1 << 20;

struct Where {
  int fd;
  const char* variable;
};

[[noreturn]] void not_here(const Where& where, const std::string& why) {
  throw ConfigError(fmt::format("dtrain: the launcher keeps this rank's state in descriptor {} ({}), and {}", where.fd,
                                where.variable, why));
}

std::mutex in_use_mutex;
std::set<std::pair<pid_t, int>> in_use;  // by which process: locks of files do not tell a process from itself

void take_alone(const Where& where) {
  const int fd = where.fd;
  const std::lock_guard guard(in_use_mutex);
  if (in_use.contains({::getpid(), fd}))
    not_here(where, "this process has it already: one KeptState of a process is enough");
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (::fcntl(fd, F_SETLK, &lock) == 0) {
    in_use.emplace(::getpid(), fd);
    return;
  }
  struct flock other = lock;
  const bool known = ::fcntl(fd, F_GETLK, &other) == 0 && other.l_type != F_UNLCK;
  not_here(where, fmt::format("process {} of this rank has it: one process of a rank keeps state",
                              known ? fmt::to_string(other.l_pid) : "?"));
}

}  // namespace

KeptMemory::KeptMemory(int fd, const char* variable) : fd_(fd) {
  const Where where{fd, variable};
  constexpr int kLaunchers = F_SEAL_SHRINK | F_SEAL_SEAL;
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 && errno == EBADF)
    not_here(where,
             "it is closed here: a program between dtrain and this one closes what it inherits; start this program by "
             "dtrain itself, or by a program that execs it");
  if (seals < 0 || (seals & kLaunchers) != kLaunchers)
    not_here(where, "something else is there: a program between dtrain and this one uses that number");
  take_alone(where);
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

// The descriptor stays open: the process may make another KeptMemory.
KeptMemory::~KeptMemory() {
  unmap();
  struct flock lock {};
  lock.l_type = F_UNLCK;
  lock.l_whence = SEEK_SET;
  ::fcntl(fd_, F_SETLK, &lock);
  const std::lock_guard guard(in_use_mutex);
  in_use.erase({::getpid(), fd_});
}

std::uint64_t KeptMemory::size() const {
  struct stat found {};
  return ::fstat(fd_, &found) == 0 ? static_cast<std::uint64_t>(found.st_size) : 0;
}

// Less than the size, if there are holes.
std::uint64_t KeptMemory::reserved() const {
  constexpr std::uint64_t kBlock = 512;
  struct stat found {};
  return ::fstat(fd_, &found) == 0 ? static_cast<std::uint64_t>(found.st_blocks) * kBlock : 0;
}

const Found& KeptMemory::find(std::uint64_t fingerprint) { return found_ = look(fingerprint); }

Found KeptMemory::look(std::uint64_t fingerprint) {
  const std::uint64_t bytes = size();
  if (bytes < kHeadBytes) return nothing_kept();
  if (base_ == nullptr) map(kHeadBytes);
  HeadFacts facts = read_head(head(), bytes, fingerprint);
  if (!facts.found.why_not.empty()) return facts.found;
  value_bytes_ = facts.found.identity.value_bytes;
  map(total_bytes(value_bytes_, facts.parts));
  return read_parts(std::move(facts), base_ + parts_at(value_bytes_));
}

void KeptMemory::make_room(const Identity& identity) {
  if (is_of(identity)) return;
  find(identity.fingerprint);
  if (!is_of(identity)) lay_out(identity);
}

void KeptMemory::lay_out(const Identity& identity) {
  const std::uint64_t bytes = total_bytes(identity.value_bytes, identity.parts.size()), before = size();
  try {
    reserve(bytes);
    map(bytes);
  } catch (...) {
    give_back_behind(before);
    throw;
  }
  value_bytes_ = identity.value_bytes;
  for (std::size_t slot = 0; slot < kSlots; ++slot) empty(slot);
  std::atomic_thread_fence(std::memory_order_release);
  std::copy_n(reinterpret_cast<const std::byte*>(identity.parts.data()), identity.parts.size() * sizeof(Part),
              base_ + parts_at(value_bytes_));
  write_head(head(), identity);
  give_back_behind(bytes);
  found_ = {};
  found_.identity = identity;
}

// Memory that is reserved cannot fail to be there later, when a write would end the process by SIGBUS.
void KeptMemory::reserve(std::uint64_t bytes) {
  const std::string wanted = fmt::format("keeping the state of this rank takes {:.0f} MiB of memory, twice its size",
                                         static_cast<double>(bytes) / kMiB);
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes)
    throw Refused(fmt::format("{}, and the limit of a file's size is {:.0f} MiB (`ulimit -f`)", wanted,
                              static_cast<double>(limit.rlim_cur) / kMiB));
  for (std::uint64_t at = 0; at < bytes;) {
    const auto available = available_memory();
    if (available && *available < bytes - std::min(bytes, reserved()))
      throw Refused(fmt::format("{}, and {:.0f} MiB are available", wanted, static_cast<double>(*available) / kMiB));
    const std::uint64_t next = std::min(kReserveAtOnce, bytes - at);
    if (::fallocate(fd_, 0, static_cast<off_t>(at), static_cast<off_t>(next)) == 0)
      at += next;
    else if (errno != EINTR)
      throw Refused(fmt::format("{}: {}", wanted, std::strerror(errno)));
  }
}

// It cannot shrink, but it may have a hole there.
void KeptMemory::give_back_behind(std::uint64_t bytes) noexcept {
  const std::uint64_t end = size();
  if (end <= bytes) return;
  ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(bytes),
              static_cast<off_t>(end - bytes));
}

void KeptMemory::map(std::uint64_t bytes) {
  if (base_ != nullptr && mapped_ == bytes) return;
  unmap();
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, 0);
  if (mapped == MAP_FAILED)
    throw Refused(fmt::format("{} MiB of the kept state cannot be mapped: {}", bytes >> 20, std::strerror(errno)));
  base_ = static_cast<std::byte*>(mapped);
  mapped_ = bytes;
  ::madvise(base_, mapped_, MADV_DONTFORK);  // a child that is forked has no business here
}

void KeptMemory::unmap() noexcept {
  if (base_ != nullptr) ::munmap(base_, mapped_);
  base_ = nullptr;
}

std::byte* KeptMemory::values(std::size_t slot) const { return base_ + values_at(value_bytes_, slot); }
std::byte* KeptMemory::extra(std::size_t slot) const { return base_ + extra_at(value_bytes_, slot); }

std::atomic_ref<std::uint64_t> KeptMemory::commit_word_of(std::size_t slot) const {
  return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(base_ + commit_at(slot)));
}

std::size_t KeptMemory::begin() {
  const std::size_t slot = next_slot(found_);
  empty(slot);
  return slot;
}

void KeptMemory::empty(std::size_t slot) {
  found_.slots[slot].reset();
  commit_word_of(slot).store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // before the slot is written
}

void KeptMemory::forget_after(const Stamp& stamp) {
  for (std::size_t slot = 0; slot < kSlots; ++slot)
    if (found_.slots[slot] && found_.slots[slot]->stamp > stamp) empty(slot);
}

void KeptMemory::commit(std::size_t slot, const Slot& what) {
  write_slot(head(), slot, what);
  commit_word_of(slot).store(commit_word(what.stamp), std::memory_order_release);
  found_.slots[slot] = what;
}

}  // namespace dtrain::kept
