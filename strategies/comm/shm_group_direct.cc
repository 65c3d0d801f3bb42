// Reading what another rank has in its own memory; see shm_group.h.
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>

#include "strategies/comm/cache_line.h"
#include "strategies/comm/env_flag.h"
#include "strategies/comm/shm_group.h"

namespace dtrain {
namespace {

// Through slots there is a synchronisation less, which takes longer where it means that another process runs.
constexpr std::uint64_t kLeast = 32 * 1024;
constexpr std::uint64_t kLeastWithoutCores = 1024 * 1024;
constexpr std::uint64_t kNever = ~std::uint64_t{0};
constexpr std::size_t kPiece = 8 << 20;  // between looks at whether the group has failed
constexpr std::chrono::milliseconds kEnding{1000};
constexpr std::size_t kSample = 128 * 1024;
constexpr int kTrials = 4;  // the first finds pages and caches that nobody has used

// As many bytes as could be read at once; 0 or less: none.
ssize_t read_some(std::int32_t pid, std::uint64_t from, std::span<std::byte> into) {
  const iovec own{into.data(), into.size()};
  const iovec theirs{reinterpret_cast<void*>(from), into.size()};
  return ::process_vm_readv(pid, &own, 1, &theirs, 1, 0);
}

// The time that `what` takes where nothing comes in between is the least of some.
template <class Action>
void keep_least(std::chrono::nanoseconds& least, Action what) {
  const auto started = std::chrono::steady_clock::now();
  what();
  least = std::min<std::chrono::nanoseconds>(least, std::chrono::steady_clock::now() - started);
}

}  // namespace

std::vector<CacheLine> ShmGroup::offer_sample() const {
  std::vector<CacheLine> sample(std::min<std::size_t>(kSample, slot_bytes_) / kCacheLine);
  std::memcpy(sample.data(), &segment_.header().token, sizeof(std::uint64_t));
  segment_.rank(rank_).probe = place(std::as_bytes(std::span(sample)).data());
  return sample;
}

// After all have joined: the largest of their bounds, for what one may not, or has no gain of, none does.
void ShmGroup::agree_on_reads(std::vector<CacheLine>& sample, const std::function<void()>& meet) {
  const std::optional<bool> wanted =
      env_flag(process_env(), "DTRAIN_DIRECT_READS",
               "1 (wherever it is allowed) or 0 (never); unset, ranks measure what is faster");
  std::uint64_t& own = segment_.rank(rank_).least_direct;
  own = !wanted.value_or(true) || !may_read_all() ? kNever : wait_.has_cores() ? kLeast : kLeastWithoutCores;
  meet();
  least_direct_ = largest_bound();
  if (least_direct_ == kNever || members().size() == 1) return;
  if (!reading_pays(sample, meet) && !wanted) own = kNever;
  meet();
  least_direct_ = largest_bound();
}

std::uint64_t ShmGroup::largest_bound() const {
  std::uint64_t largest = 0;
  for (const int r : members()) largest = std::max(largest, segment_.rank(r).least_direct);
  return largest;
}

// The kernel may forbid it (Yama's ptrace_scope, seccomp), and to some ranks alone.
bool ShmGroup::may_read_all() const {
  return std::all_of(members().begin(), members().end(), [this](int r) {
    std::uint64_t found = 0;
    const auto bytes = std::as_writable_bytes(std::span(&found, 1));
    const RankBlock& block = segment_.rank(r);
    return read_some(block.pid, block.probe, bytes) == std::ssize(bytes) && found == segment_.header().token;
  });
}

// Whether bytes that the next rank has just written come faster when they are read where they lie than through its
// slot. It depends on what the processor and the kernel need for a page, and either may be three times the other.
// Meetings do not count: kLeast and kLeastWithoutCores are for those.
bool ShmGroup::reading_pays(std::vector<CacheLine>& memory, const std::function<void()>& meet) const {
  const int next = members()[(seat(rank_) + 1) % members().size()];
  std::vector<CacheLine> copy(memory.size());
  const auto sample = std::as_writable_bytes(std::span(memory)), into = std::as_writable_bytes(std::span(copy));
  std::chrono::nanoseconds in = kEnding, out = kEnding, reading = kEnding;
  bool well = true;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::fill(sample.begin(), sample.end(), static_cast<std::byte>(trial));
    keep_least(in, [&] { std::memcpy(segment_.slot(rank_, 0), sample.data(), sample.size()); });
    meet();
    keep_least(out, [&] { std::memcpy(into.data(), segment_.slot(next, 0), into.size()); });
    keep_least(reading, [&] {
      well = read_some(segment_.rank(next).pid, segment_.rank(next).probe, into) == std::ssize(into) && well;
    });
    meet();
  }
  return well && reading < in + out;
}

// False: it may not be read, or not in this way, as memory that a driver maps.
bool ShmGroup::read(const Call& call, int rank, std::uint64_t from, std::span<std::byte> into) {
  while (!into.empty()) {
    wait_.check(call.name());
    const ssize_t n = read_some(segment_.rank(rank).pid, from, into.first(std::min(into.size(), kPiece)));
    if (n <= 0) {
      // The memory of a process that ends goes first, and that it has ended is told later.
      const bool ends = errno != EPERM && watch_.ends_within(rank, kEnding);
      if (ends) wait_.fail({FailureKind::peer_died, rank}, call.name(), "");
      return false;
    }
    into = into.subspan(static_cast<std::size_t>(n));
    from += static_cast<std::uint64_t>(n);
  }
  return true;
}

// The second meeting. Whether all have read all; else all go through slots, now and from now on.
bool ShmGroup::all_have_read(const Call& call, bool well) {
  segment_.rank(rank_).unread[parity_] = well ? 0 : 1;
  try {
    sync(call);
  } catch (...) {
    // At once: one that is late must not take for the tensor what its caller writes there next.
    wait_.record({FailureKind::aborted, rank_});
    throw;
  }
  wait_.check(call.name());
  if (std::all_of(members().begin(), members().end(), [this](int r) { return segment_.rank(r).unread[parity_] == 0; }))
    return true;
  least_direct_ = kNever;
  return false;
}

}  // namespace dtrain
