// See direct_reads.h.
#include "strategies/comm/local/direct_reads.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>

#include "strategies/comm/base/env_flag.h"

namespace dtrain {
namespace {

// A message through slots has one synchronisation less. That saves more where a synchronisation means that another
// process has to run.
constexpr std::uint64_t kLeast = 32 * 1024;
constexpr std::uint64_t kLeastWithoutCores = 1024 * 1024;
constexpr std::uint64_t kNever = ~std::uint64_t{0};
constexpr std::size_t kPiece = 8 << 20;  // between two looks at whether the group has failed
constexpr std::chrono::milliseconds kReadEnding{1000};
constexpr std::size_t kSample = 128 * 1024;
constexpr int kTrials = 4;  // the first one meets pages and caches that nobody has used

// How many bytes were read; 0 or less: none.
ssize_t read_some(std::int32_t pid, std::uint64_t from, std::span<std::byte> into) {
  const iovec own{into.data(), into.size()};
  const iovec theirs{reinterpret_cast<void*>(from), into.size()};
  return ::process_vm_readv(pid, &own, 1, &theirs, 1, 0);
}

// The shortest of several trials is the time that `what` takes when nothing interrupts it.
template <class Action>
void keep_least(std::chrono::nanoseconds& least, Action what) {
  const auto started = std::chrono::steady_clock::now();
  what();
  least = std::min<std::chrono::nanoseconds>(least, std::chrono::steady_clock::now() - started);
}

}  // namespace

void DirectReads::agree(ShmWait::Deadline deadline) {
  Sample sample = offer_sample();
  steps_.meet(deadline);
  steps_.close_segment();
  agree_on_least(sample, deadline);
}

// The memory that the others read on trial; it begins with the segment's token.
DirectReads::Sample DirectReads::offer_sample() const {
  Sample sample(std::min<std::size_t>(kSample, steps_.slot_bytes) / kCacheLine);
  std::memcpy(sample.data(), &steps_.segment().header().token, sizeof(std::uint64_t));
  steps_.own_block().probe = place(std::as_bytes(std::span(sample)).data());
  return sample;
}

// The largest of all ranks' bounds: where one rank may not read, or gains nothing, no rank reads.
void DirectReads::agree_on_least(Sample& sample, ShmWait::Deadline deadline) {
  const std::optional<bool> wanted =
      env_flag(process_env(), "DTRAIN_DIRECT_READS",
               "1 (wherever it is allowed) or 0 (never); unset, ranks measure what is faster");
  std::uint64_t& own = steps_.own_block().least_direct;
  own = !wanted.value_or(true) || !may_read_all() ? kNever : steps_.wait().has_cores() ? kLeast : kLeastWithoutCores;
  steps_.meet(deadline);
  least_ = largest_bound();
  if (least_ == kNever || steps_.members().size() == 1) return;
  if (!reading_pays(sample, deadline) && !wanted) own = kNever;
  steps_.meet(deadline);
  least_ = largest_bound();
}

std::uint64_t DirectReads::largest_bound() const {
  std::uint64_t largest = 0;
  for (const int r : steps_.members()) largest = std::max(largest, steps_.block(r).least_direct);
  return largest;
}

// The kernel may forbid reading (Yama's ptrace_scope, seccomp), and may forbid it to some ranks only.
bool DirectReads::may_read_all() const {
  return std::all_of(steps_.members().begin(), steps_.members().end(), [this](int r) {
    std::uint64_t found = 0;
    const auto bytes = std::as_writable_bytes(std::span(&found, 1));
    const RankBlock& block = steps_.block(r);
    return read_some(block.pid, block.probe, bytes) == std::ssize(bytes) && found == steps_.segment().header().token;
  });
}

// Whether bytes that the next rank has just written come faster when this rank reads them where they lie than through
// the next rank's slot. That depends on what the processor and the kernel need for a page; either way may take three
// times as long as the other. Synchronisations are not measured: kLeast and kLeastWithoutCores stand for those.
bool DirectReads::reading_pays(Sample& memory, ShmWait::Deadline deadline) const {
  const auto& members = steps_.members();
  const int next = members[(steps_.seat(steps_.rank) + 1) % members.size()];
  Sample copy(memory.size());
  const auto sample = std::as_writable_bytes(std::span(memory)), into = std::as_writable_bytes(std::span(copy));
  std::byte* const own_slot = steps_.segment().slot(steps_.rank, 0);
  const std::byte* const next_slot = steps_.segment().slot(next, 0);
  std::chrono::nanoseconds in = kReadEnding, out = kReadEnding, reading = kReadEnding;
  bool well = true;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::fill(sample.begin(), sample.end(), static_cast<std::byte>(trial));
    keep_least(in, [&] { std::memcpy(own_slot, sample.data(), sample.size()); });
    steps_.meet(deadline);
    keep_least(out, [&] { std::memcpy(into.data(), next_slot, into.size()); });
    keep_least(reading, [&] {
      well = read_some(steps_.block(next).pid, steps_.block(next).probe, into) == std::ssize(into) && well;
    });
    steps_.meet(deadline);
  }
  return well && reading < in + out;
}

bool DirectReads::read(const CollectiveCall& call, int member, std::uint64_t from, std::span<std::byte> into) {
  ShmWait& wait = steps_.wait();
  while (!into.empty()) {
    wait.check(call.name());
    const ssize_t n = read_some(steps_.block(member).pid, from, into.first(std::min(into.size(), kPiece)));
    if (n <= 0) {
      // The kernel frees a process's memory before it tells that the process has ended.
      const bool ends = errno != EPERM && steps_.watch().ends_within(member, kReadEnding);
      if (ends) wait.fail({FailureKind::peer_died, member}, call.name(), "");
      return false;
    }
    into = into.subspan(static_cast<std::size_t>(n));
    from += static_cast<std::uint64_t>(n);
  }
  return true;
}

bool DirectReads::all_have_read(const CollectiveCall& call, bool well) {
  const std::uint32_t parity = steps_.parity();
  steps_.own_block().unread[parity] = well ? 0 : 1;
  try {
    steps_.sync(call);
  } catch (...) {
    // Recorded at once: a rank that is late must not read, instead of the tensor, what the caller writes there next.
    steps_.wait().record({FailureKind::aborted, steps_.rank});
    throw;
  }
  steps_.wait().check(call.name());
  const auto has_read = [&](int r) { return steps_.block(r).unread[parity] == 0; };
  if (std::all_of(steps_.members().begin(), steps_.members().end(), has_read)) return true;
  least_ = kNever;
  return false;
}

}  // namespace dtrain
