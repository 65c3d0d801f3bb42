// See shm_group.h.
#include "strategies/comm/shm_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "strategies/comm/own_process.h"
#include "strategies/comm/reduce.h"

namespace dtrain {
namespace {

// Before one sleeps. Spinning helps only while every rank has a core to itself; 0: yield (kYielding).
std::chrono::microseconds spin_for(bool has_cores) { return std::chrono::microseconds{has_cores ? 50 : 0}; }

constexpr std::size_t kAheadBytes = 4096;

}  // namespace

ShmGroup::ShmGroup(ShmSegment segment, int rank, bool has_cores, Deadline deadline)
    : process_(own_process()),
      rank_(rank),
      join_deadline_(deadline),
      segment_(std::move(segment)),
      ranks_(static_cast<int>(segment_.header().ranks)),
      slot_bytes_(segment_.header().slot_bytes),
      wait_(segment_, watch_, rank, {spin_for(has_cores)}),
      p2p_(std::make_unique<P2p>(segment_, watch_, wait_, rank, spin_for(has_cores))) {
  try {
    join();
  } catch (...) {
    leave();
    throw;
  }
}

void ShmGroup::join() {
  std::vector<int> pids(static_cast<std::size_t>(ranks_));
  for (const int r : members()) pids[static_cast<std::size_t>(r)] = segment_.rank(r).pid;
  watch_.watch(pids, rank_);
  const auto meet = [this] {
    ++point_;
    wait_.arrive(point_);
    wait_.wait_all(point_, ShmWait::Limit(join_deadline_), [] { return std::string("forming the group"); });
  };
  std::vector<CacheLine> sample = offer_sample();
  meet();
  segment_.close_fd();  // all ranks have it mapped
  agree_on_reads(sample, meet);
}

ShmGroup::~ShmGroup() {
  if (own_process() == process_) {
    p2p_->end();  // what it said last comes before its leaving
    leave();
  } else {
    static_cast<void>(p2p_.release());  // its thread is not here, and may have held its mutex
  }
}

void ShmGroup::leave() noexcept {
  if (own_process() == process_) segment_.rank(rank_).left.store(1, std::memory_order_release);
}

void ShmGroup::abort() noexcept { wait_.record({FailureKind::aborted, rank_}); }

// Start a step: the other slot, and this rank's descriptor for the others to compare with.
void ShmGroup::begin(const Call& call, std::uint64_t place) {
  if (ahead_of_) {
    const Call last = *std::exchange(ahead_of_, std::nullopt);
    // In its own time, which this operation's is not counted in.
    wait_.wait_all(point_, ShmWait::Limit(last.timeout), [&last] { return last.name(); });
    compare(last);
  }
  parity_ ^= 1U;
  segment_.rank(rank_).ops[parity_] = call.descriptor;
  segment_.rank(rank_).places[parity_] = place;
}

void ShmGroup::sync(const Call& call) {
  ++point_;
  wait_.arrive(point_);
  wait_.wait_all(point_, call.limit, [&call] { return call.name(); });
}

// With larger ones it gains nothing, and where one of two is held up once, they would wait for each other in turn for
// longer than they spin.
void ShmGroup::go_ahead_or_meet(const Call& call, std::size_t bytes) {
  if (bytes > kAheadBytes) {
    sync(call);
    return compare(call);
  }
  wait_.arrive(++point_);
  ahead_of_ = call;
}

void ShmGroup::compare(const Call& call) {
  const auto called = [this](int rank) -> const OpDescriptor& { return segment_.rank(rank).ops[parity_]; };
  const auto same = [&](int rank) { return called(rank) == call.descriptor; };
  if (std::all_of(members().begin(), members().end(), same)) return;
  // Name the same culprit everywhere: the first rank that differs from the first.
  const int first = members().front();
  const int culprit = *std::find_if(members().begin() + 1, members().end() - 1,
                                    [&](int rank) { return !(called(rank) == called(first)); });
  wait_.fail({FailureKind::mismatched, culprit}, fmt::format("collective {}", call.number),
             fmt::format("rank {} called {}, rank {} called {}", first, Call::text(called(first)), culprit,
                         Call::text(called(culprit))));
}

void ShmGroup::barrier(Timeout timeout) {
  const Call call(++operations_, CollectiveOp::barrier, 0, ElementType::u8, Reduction::sum, -1, timeout);
  wait_.check("barrier");
  sync_all(call);
}

void ShmGroup::sync_all(const Call& call) {
  begin(call);
  sync(call);
  compare(call);
}

void ShmGroup::all_reduce(std::byte* data, std::size_t count, ElementType type, Reduction reduction, Timeout timeout) {
  const Call call(++operations_, CollectiveOp::all_reduce, count, type, reduction, -1, timeout);
  wait_.check("all_reduce");
  reduce_all(call, data, count, true, place_of(data, count * size_of(type)));
}

void ShmGroup::reduce_all(const Call& call, std::byte* data, std::size_t count, bool receives, std::uint64_t place) {
  if (meet(call, data, count, place)) return reduce_in_arenas(call, data, count);
  if (!is_small(count * size_of(call.type()))) return reduce_parts(call, data, count, receives);
  if (receives) reduce_small(call, data, count);
}

void ShmGroup::reduce(std::byte* data, std::size_t count, ElementType type, Reduction reduction, int root,
                      Timeout timeout) {
  const Call call(++operations_, CollectiveOp::reduce, count, type, reduction, root, timeout);
  wait_.check("reduce");
  reduce_all(call, data, count, rank_ == root);
}

bool ShmGroup::is_small(std::size_t bytes) const { return bytes <= std::min<std::size_t>(kOneShotBytes, slot_bytes_); }

std::size_t ShmGroup::step_of(std::size_t width) const {
  return std::min<std::size_t>(kPartBytes, slot_bytes_ / 2) / width;
}

void ShmGroup::reduce_sources(const Call& call, std::byte* out, std::size_t count) {
  reduce_in_order(call.type(), call.reduction(), sources_, out, count, static_cast<std::size_t>(ranks_));
}

void ShmGroup::copy_in(const std::byte* data, std::size_t count, std::size_t width, bool whole) {
  if (count == 0) return;
  if (whole) {
    std::memcpy(slot(rank_), data, count * width);
    return;
  }
  for (const int r : members()) {
    const Slice s = slice(r, count, width);
    if (r != rank_) std::memcpy(slot(rank_) + s.at, data + s.at, s.bytes);
  }
}

void ShmGroup::reduce_small(const Call& call, std::byte* data, std::size_t count) {
  if (count == 0) return;
  sources_.clear();
  for (const int r : members()) sources_.push_back(slot(r));
  reduce_sources(call, data, count);
}

// A synchronisation a part: all have reduced this one, and have the next one in their slots.
void ShmGroup::reduce_parts(const Call& call, std::byte* data, std::size_t count, bool receives) {
  const std::size_t width = size_of(call.type()), step = step_of(width);
  for (std::size_t done = 0, next = 0; done < count; done = next) {
    const std::size_t n = std::min(step, count - done);
    next = done + n;
    reduce_slice(call, data + done * width, n, receives);
    const std::uint32_t parity = parity_;
    if (next < count) {
      begin(call);
      copy_in(data + next * width, std::min(step, count - next), width, false);
    }
    sync(call);
    if (next < count) compare(call);
    for (const int r : members()) {
      const Slice s = slice(r, n, width);
      if (receives && r != rank_) std::memcpy(data + done * width + s.at, results(r, parity), s.bytes);
    }
  }
}

// This rank's slice of a part, for all. By blocks, which are still in the nearest cache when they go into its own data.
void ShmGroup::reduce_slice(const Call& call, std::byte* data, std::size_t count, bool receives) {
  const std::size_t width = size_of(call.type());
  const Slice own = slice(rank_, count, width);
  for (std::size_t done = 0; done < own.bytes; done += kBlockBytes) {
    const std::size_t at = own.at + done, bytes = std::min(kBlockBytes, own.bytes - done);
    sources_.clear();
    for (const int r : members()) sources_.push_back((r == rank_ ? data : slot(r)) + at);
    std::byte* const result = results(rank_, parity_) + done;
    reduce_sources(call, result, bytes / width);
    if (receives) std::memcpy(data + at, result, bytes);
  }
}

// What `rank` reduces of `count` elements.
ShmGroup::Slice ShmGroup::slice(int rank, std::size_t count, std::size_t width) const {
  const std::size_t from = count * seat(rank) / members().size();
  return {from * width, (count * (seat(rank) + 1) / members().size() - from) * width};
}

void ShmGroup::reduce_scatter(const std::vector<const std::byte*>& inputs, std::byte* output, std::size_t count,
                              ElementType type, Reduction reduction, Timeout timeout) {
  const Call call(++operations_, CollectiveOp::reduce_scatter, count, type, reduction, -1, timeout);
  wait_.check("reduce_scatter");
  const std::size_t width = size_of(type);
  // A slot holds the step's elements for every rank, one part after another.
  const std::size_t share = lines_in(slot_bytes_ / static_cast<std::size_t>(ranks_));
  const std::size_t step = std::max<std::size_t>(1, share / width);
  std::size_t done = 0;
  do {
    const std::size_t n = std::min(step, count - done);
    begin(call);
    const std::size_t stride = lines_for(n * width);
    const auto place = [&](int owner, int part) { return slot(owner) + static_cast<std::size_t>(part) * stride; };
    const auto own = [&](int part) { return inputs[static_cast<std::size_t>(part)] + done * width; };
    for (const int r : members()) {
      if (r != rank_ && n > 0) std::memcpy(place(rank_, r), own(r), n * width);
    }
    sync(call);
    compare(call);
    sources_.clear();
    for (const int r : members()) sources_.push_back(r == rank_ ? own(r) : place(r, rank_));
    reduce_sources(call, output + done * width, n);
    done += n;
  } while (done < count);
}

}  // namespace dtrain
