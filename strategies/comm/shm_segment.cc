// Creates, opens and maps the shared memory; see shm_segment.h.
#include "strategies/comm/shm_segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <numeric>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace dtrain {
namespace {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free,
              "ranks share these words across processes");

[[noreturn]] void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

constexpr std::size_t kPage = 4096;

std::size_t round_up(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

std::size_t control_bytes(std::uint32_t ranks) { return round_up(sizeof(SegmentHeader) + ranks * sizeof(RankBlock)); }

// Enough to copy in at one end while the other copies out, and little enough to stay in a cache.
std::size_t ring_bytes_for(std::uint32_t slot_bytes) { return std::max(kPage, round_up(slot_bytes / 4)); }

std::size_t pairs_begin(const SegmentHeader& h) {
  return round_up(control_bytes(h.ranks) + std::size_t{2} * h.members * h.slot_bytes);
}

std::size_t rings_begin(const SegmentHeader& h) {
  return pairs_begin(h) + round_up(std::size_t{h.members} * h.members * sizeof(PairBlock));
}

std::size_t segment_bytes(const SegmentHeader& h) {
  return rings_begin(h) + std::size_t{h.members} * h.members * ring_bytes_for(h.slot_bytes);
}

}  // namespace

ShmSegment::ShmSegment(ShmSegment&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      base_(std::exchange(other.base_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      slots_(std::exchange(other.slots_, nullptr)),
      members_(std::move(other.members_)) {}

ShmSegment& ShmSegment::operator=(ShmSegment&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(base_, other.base_);
  std::swap(size_, other.size_);
  std::swap(slots_, other.slots_);
  std::swap(members_, other.members_);
  return *this;
}

ShmSegment::~ShmSegment() {
  if (base_ != nullptr) ::munmap(base_, size_);
  close_fd();
}

ShmSegment ShmSegment::create(std::uint32_t ranks, std::uint32_t slot_bytes, std::uint64_t token,
                              std::vector<int> members) {
  if (members.empty()) {
    members.resize(ranks);
    std::iota(members.begin(), members.end(), 0);
  }
  SegmentHeader plan;
  plan.ranks = ranks;
  plan.slot_bytes = slot_bytes;
  plan.members = static_cast<std::uint32_t>(members.size());
  ShmSegment segment;
  segment.fd_ = ::memfd_create("dtrain-group", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (segment.fd_ < 0) throw_errno("memfd_create for the group's shared memory");
  const std::size_t size = segment_bytes(plan);
  if (::ftruncate(segment.fd_, static_cast<off_t>(size)) != 0)
    throw_errno(fmt::format("shared memory of {} bytes", size));
  // A peer that shrank the file would kill the others with SIGBUS.
  if (::fcntl(segment.fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    throw_errno("sealing shared memory");
  segment.map(size);
  auto* header = new (segment.base_) SegmentHeader;
  header->ranks = ranks;
  header->slot_bytes = slot_bytes;
  header->members = plan.members;
  header->token = token;
  for (std::uint32_t r = 0; r < ranks; ++r) new (&segment.rank(static_cast<int>(r))) RankBlock;
  for (std::size_t i = 0; i < members.size(); ++i) segment.rank(members[i]).seat = static_cast<std::int32_t>(i);
  segment.look_in();
  return segment;
}

ShmSegment ShmSegment::open(int pid, int fd, std::uint64_t token) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, fd);
  ShmSegment segment;
  segment.fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (segment.fd_ < 0) throw_errno(path);
  struct stat status {};
  if (::fstat(segment.fd_, &status) != 0) throw_errno(path);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size < kPage) throw std::runtime_error(fmt::format("{} is not the group's shared memory", path));
  segment.map(size);
  const SegmentHeader& header = segment.header();
  if (header.token != token || segment_bytes(header) != size) {
    throw std::runtime_error(fmt::format("{} is not the group's shared memory", path));
  }
  segment.look_in();
  return segment;
}

void ShmSegment::look_in() {
  slots_ = static_cast<std::byte*>(base_) + control_bytes(header().ranks);
  for (std::uint32_t r = 0; r < header().ranks; ++r) {
    if (rank(static_cast<int>(r)).seat >= 0) members_.push_back(static_cast<int>(r));
  }
}

void ShmSegment::map(std::size_t size) {
  void* base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (base == MAP_FAILED) throw_errno(fmt::format("mapping {} bytes of shared memory", size));
  base_ = base;
  size_ = size;
}

void ShmSegment::close_fd() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

std::size_t ShmSegment::pair_index(int from, int to) const {
  return static_cast<std::size_t>(rank(from).seat) * members_.size() + static_cast<std::size_t>(rank(to).seat);
}

PairBlock& ShmSegment::pair(int from, int to) const {
  auto* begin = static_cast<std::byte*>(base_) + pairs_begin(header());
  return reinterpret_cast<PairBlock*>(begin)[pair_index(from, to)];
}

std::byte* ShmSegment::ring(int from, int to) const {
  auto* begin = static_cast<std::byte*>(base_) + rings_begin(header());
  return begin + pair_index(from, to) * ring_bytes();
}

std::size_t ShmSegment::ring_bytes() const { return ring_bytes_for(header().slot_bytes); }

}  // namespace dtrain
