// Reading what another rank has in its own memory; see shm_group.h.
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

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

// As many bytes as could be read at once; 0 or less: none.
ssize_t read_some(std::int32_t pid, std::uint64_t from, std::span<std::byte> into) {
  const iovec own{into.data(), into.size()};
  const iovec theirs{reinterpret_cast<void*>(from), into.size()};
  return ::process_vm_readv(pid, &own, 1, &theirs, 1, 0);
}

bool wanted() {  // throws ConfigError
  return env_flag("DTRAIN_DIRECT_READS", "1 (default) or 0").value_or(true);
}

}  // namespace

// The kernel may forbid it (Yama's ptrace_scope, seccomp), and to some ranks alone. After all have joined.
std::uint64_t ShmGroup::least_direct(bool has_cores) const {
  const auto reads = [this](int r) {
    std::uint64_t found = 0;
    const auto bytes = std::as_writable_bytes(std::span(&found, 1));
    const RankBlock& block = segment_.rank(r);
    return read_some(block.pid, block.probe, bytes) == std::ssize(bytes) && found == segment_.header().token;
  };
  if (!wanted() || !std::all_of(members().begin(), members().end(), reads)) return kNever;
  return has_cores ? kLeast : kLeastWithoutCores;
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
