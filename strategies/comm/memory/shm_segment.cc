// Creates, opens and maps the shared memory; see shm_segment.h.
#include "strategies/comm/memory/shm_segment.h"

#include <algorithm>
#include <new>
#include <numeric>
#include <stdexcept>

#include "strategies/comm/memory/page.h"

namespace dtrain {
namespace {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free,
              "ranks share these words across processes");

std::size_t round_up(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

std::size_t control_bytes(std::uint32_t ranks) { return round_up(sizeof(SegmentHeader) + ranks * sizeof(RankBlock)); }

// A ring has room for one rank to copy in while the other copies out, and is small enough to stay in a cache.
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
  segment.memory_ = SharedMemory::create("dtrain-group", segment_bytes(plan));
  auto* header = new (segment.memory_.base()) SegmentHeader;
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
  ShmSegment segment;
  segment.memory_ = SharedMemory::open(pid, fd);
  const std::size_t size = segment.memory_.bytes();
  if (size < kPage || segment.header().token != token || segment_bytes(segment.header()) != size)
    throw std::runtime_error(SharedMemory::path(pid, fd) + " is not the group's shared memory");
  segment.look_in();
  return segment;
}

void ShmSegment::look_in() {
  slots_ = memory_.base() + control_bytes(header().ranks);
  for (std::uint32_t r = 0; r < header().ranks; ++r) {
    if (rank(static_cast<int>(r)).seat >= 0) members_.push_back(static_cast<int>(r));
  }
}

std::size_t ShmSegment::pair_index(int from, int to) const {
  return static_cast<std::size_t>(rank(from).seat) * members_.size() + static_cast<std::size_t>(rank(to).seat);
}

PairBlock& ShmSegment::pair(int from, int to) const {
  auto* begin = memory_.base() + pairs_begin(header());
  return reinterpret_cast<PairBlock*>(begin)[pair_index(from, to)];
}

std::byte* ShmSegment::ring(int from, int to) const {
  auto* begin = memory_.base() + rings_begin(header());
  return begin + pair_index(from, to) * ring_bytes();
}

std::size_t ShmSegment::ring_bytes() const { return ring_bytes_for(header().slot_bytes); }

}  // namespace dtrain
