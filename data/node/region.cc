#include "data/node/region.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace dtrain::data {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::uint64_t members_max = 65536, region_ring_max = std::uint64_t{1} << 31;
constexpr std::uint64_t bytes_max = std::uint64_t{1} << 46;
// Nobody can take memory away that another one has mapped.
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

static_assert(std::atomic<std::int64_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

bool is_possible(const RegionSize& size) {
  return size.members > 0 && size.members <= members_max && size.ring_rows > 0 && size.ring_rows <= region_ring_max &&
         size.row_bytes > 0 && size.slots > 0 && size.slots <= bytes_max / size.row_bytes &&
         size.tail_bytes <= bytes_max;
}

}  // namespace

std::size_t Region::ring_at(const RegionSize& size) { return sizeof(ReaderWords) + size.members * sizeof(MemberWords); }

std::size_t Region::rows_at(const RegionSize& size) {
  const std::size_t end = ring_at(size) + size.ring_rows * sizeof(std::uint32_t);
  return (end + page_bytes - 1) / page_bytes * page_bytes;
}

std::size_t Region::tails_at(const RegionSize& size) {
  const std::size_t end = rows_at(size) + size.slots * size.row_bytes;
  return (end + page_bytes - 1) / page_bytes * page_bytes;
}

std::optional<Region> Region::create(const RegionSize& size, std::string& why) {
  why = "its rows are too large for memory that ranks can share";
  if (!is_possible(size)) return std::nullopt;
  // Beyond it a signal would end the process.
  rlimit files{};
  if (getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur < bytes(size)) {
    why = fmt::format("memory of {} bytes that ranks can share counts as a file, and `ulimit -f` allows {} bytes",
                      bytes(size), files.rlim_cur);
    return std::nullopt;
  }
  OwnedFd memory(memfd_create("dtrain-rows", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool is_made = memory && ftruncate(memory.get(), static_cast<off_t>(bytes(size))) == 0 &&
                       fcntl(memory.get(), F_ADD_SEALS, seals) == 0;
  auto region = is_made ? map(std::move(memory), size) : std::nullopt;
  if (!region) {
    why = fmt::format("there is no memory that ranks can share: {}", std::strerror(errno));
    return std::nullopt;
  }
  new (region->begin_) ReaderWords;
  std::byte* at = region->begin_ + sizeof(ReaderWords);
  for (std::uint64_t i = 0; i < size.members; ++i, at += sizeof(MemberWords)) new (at) MemberWords;
  return region;
}

std::optional<Region> Region::open(OwnedFd memory, const RegionSize& size) {
  struct stat facts {};
  if (!is_possible(size) || fstat(memory.get(), &facts) != 0) return std::nullopt;
  if (static_cast<std::size_t>(facts.st_size) != bytes(size)) return std::nullopt;
  if ((fcntl(memory.get(), F_GET_SEALS) & seals) != seals) return std::nullopt;
  auto region = map(std::move(memory), size);
  if (region) region->memory_ = OwnedFd();
  return region;
}

void Region::free_rows() {
  // Where the kernel cannot, the memory is free once all have unmapped it.
  [[maybe_unused]] const int freed = madvise(rows(), bytes(size_) - rows_at(size_), MADV_REMOVE);
}

std::optional<Region> Region::map(OwnedFd memory, const RegionSize& size) {
  void* begin = mmap(nullptr, bytes(size), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (begin == MAP_FAILED) return std::nullopt;
  return Region(std::move(memory), size, static_cast<std::byte*>(begin));
}

Region::Region(Region&& other) noexcept
    : memory_(std::move(other.memory_)), size_(other.size_), begin_(std::exchange(other.begin_, nullptr)) {}

Region::~Region() {
  if (begin_ != nullptr) munmap(begin_, bytes(size_));
}

ReaderWords& Region::reader() const { return *reinterpret_cast<ReaderWords*>(begin_); }

std::span<MemberWords> Region::members() const {
  return {reinterpret_cast<MemberWords*>(begin_ + sizeof(ReaderWords)), size_.members};
}

std::span<std::uint32_t> Region::ring(std::int64_t row, std::int64_t count) const {
  const std::uint64_t at = static_cast<std::uint64_t>(row) % size_.ring_rows;
  auto* slots = reinterpret_cast<std::uint32_t*>(begin_ + ring_at(size_)) + at;
  return {slots, std::min(static_cast<std::uint64_t>(count), size_.ring_rows - at)};
}

}  // namespace dtrain::data
