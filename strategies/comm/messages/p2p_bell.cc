// See p2p_bell.h.
#include "strategies/comm/messages/p2p_bell.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "strategies/comm/base/failure.h"

namespace dtrain {
namespace {

// To look at the clock, or at connections, takes longer than to look at a word in memory.
constexpr int kLooks = 64, kLooksBetweenPolls = 16;

}  // namespace

P2pBell::Pipe P2pBell::hang(const ShmSegment& segment, int rank) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    throw std::runtime_error(fmt::format("a pipe for messages: {}", std::strerror(errno)));
  segment.rank(rank).pipe = ends[0];
  return {Socket(ends[0]), Socket(ends[1])};
}

void P2pBell::use_pipes(Pipe own, const std::vector<PeerFacts>& facts) {
  for (const int member : segment_.members()) {
    if (member == rank_) continue;
    const RankBlock& block = segment_.rank(member);
    const auto path = fmt::format("/proc/{}/fd/{}", facts[static_cast<std::size_t>(member)].proc_pid, block.pipe);
    // For reading too, although nobody does: a pipe without readers would end who writes with SIGPIPE.
    Socket pipe(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
    if (pipe.fd() < 0 && errno == ENOENT)
      throw describe({FailureKind::peer_died, member}, block.pid, "forming the group", "");
    if (pipe.fd() < 0)
      throw std::runtime_error(
          fmt::format("cannot open the pipe of rank {} ({}): {}; no rank may be setuid, have file "
                      "capabilities or be undumpable",
                      member, path, std::strerror(errno)));
    pipes_.emplace(member, std::move(pipe));
  }
  pipes_.emplace(rank_, std::move(own.writes));
  own_ = std::move(own.reads);
}

void P2pBell::ring(int rank) const {
  RankBlock& block = segment_.rank(rank);
  block.bell.fetch_add(1, std::memory_order_seq_cst);
  if (block.asleep.load(std::memory_order_seq_cst) != 0) wake(rank);
}

void P2pBell::wake(int rank) const {
  if (pipes_.empty()) return futex_wake_all(segment_.rank(rank).bell);
  const char byte = 0;
  // Where the pipe is full it was rung often enough.
  [[maybe_unused]] const ssize_t n = ::write(pipes_.at(rank).fd(), &byte, 1);
}

// As if asleep: it may be. Either who rings sees that or we see the ring.
void P2pBell::resume(std::uint32_t seen) const {
  segment_.rank(rank_).asleep.store(1, std::memory_order_seq_cst);
  if (rung() != seen) wake(rank_);
}

std::uint32_t P2pBell::rung() const { return segment_.rank(rank_).bell.load(std::memory_order_seq_cst); }

bool P2pBell::spin(std::uint32_t seen, Patience& patience, std::vector<pollfd>& polls,
                   const std::function<bool()>& over) const {
  do {
    if (look(polls.empty() ? kLooks : kLooksBetweenPolls, yields_, [&] { return rung() != seen; })) return true;
    if (!polls.empty() && ::poll(polls.data(), polls.size(), 0) > 0) return true;
  } while (!over() && !patience.is_over());
  return false;
}

void P2pBell::wait(std::uint32_t seen, std::chrono::nanoseconds spins, std::chrono::nanoseconds limit,
                   std::vector<pollfd>& polls, bool wakes) const {
  Patience patience(std::min(spins, limit));
  if (spins.count() > 0 && spin(seen, patience, polls, [] { return false; })) return;
  RankBlock& block = segment_.rank(rank_);
  // Sequentially consistent with ring()'s two steps: either we see its ring or it sees us asleep.
  block.asleep.store(wakes ? 1 : 0, std::memory_order_seq_cst);
  if (rung() == seen) await(seen, limit, polls);
  block.asleep.store(0, std::memory_order_relaxed);
}

void P2pBell::await(std::uint32_t seen, std::chrono::nanoseconds limit, std::vector<pollfd>& polls) const {
  if (own_.fd() < 0) return futex_wait(segment_.rank(rank_).bell, seen, limit);
  polls.push_back({own_.fd(), POLLIN, 0});
  const auto left = std::max(limit, std::chrono::nanoseconds{0});
  const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
  const timespec time{seconds.count(), (left - seconds).count()};
  ::ppoll(polls.data(), polls.size(), &time, nullptr);
  std::array<char, 64> bytes{};
  while (polls.back().revents != 0 && ::read(own_.fd(), bytes.data(), bytes.size()) > 0) {
  }
  polls.pop_back();
}

}  // namespace dtrain
