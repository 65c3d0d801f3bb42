// See p2p_tcp_link.h.
#include "strategies/comm/messages/p2p_tcp_link.h"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace dtrain {
namespace {

// One receive may take as much as what is missing of a large message; frames behind it, and what a short one carries,
// come by way of a buffer.
constexpr std::size_t kAhead = 8 * 1024;
// After so many bytes the next link has its turn, and callers have theirs.
constexpr std::size_t kBytesPerTurn = 2 * 1024 * 1024;

bool later() { return errno == EAGAIN || errno == EINTR; }

}  // namespace

// A process that was forked from this one may keep the connection open.
P2pTcpLink::~P2pTcpLink() { ::shutdown(socket_.fd(), SHUT_WR); }

bool P2pTcpLink::take(P2pCore& core) {
  if (!readable_ || closed_ || ceased_) return false;
  readable_ = false;
  bool took = false;
  std::array<std::byte, kAhead> ahead;
  std::size_t all = 0;
  while (all < kBytesPerTurn) {
    const std::span<std::byte> missing = inbox_.missing();
    std::array<iovec, 2> parts{iovec{missing.data(), missing.size()}, iovec{ahead.data(), ahead.size()}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t n = ::recvmsg(socket_.fd(), &message, MSG_DONTWAIT);
    if (n < 0 && later()) break;
    if (n <= 0) {
      closed_ = Clock::now();
      break;
    }
    took = true;
    const auto come = static_cast<std::size_t>(n);
    all += come;
    const std::size_t placed = std::min(come, missing.size());
    if (!inbox_.take(core, placed, std::span(ahead).first(come - placed)))
      wait_.fail({FailureKind::mismatched, peer_}, "messages",
                 fmt::format("rank {} sent something else than a message", peer_));
    if (come < missing.size() + ahead.size()) break;
  }
  return took;
}

bool P2pTcpLink::send(P2pCore& core) {
  // What is sent to a connection that is closed resets it, and with it what was on its way from there.
  deaf_ = deaf_ || links_.state(peer_) == TcpLinks::State::left;
  bool moved = false;
  std::size_t all = 0;
  for (int i = 0; i < kBurst && all < kBytesPerTurn && !deaf_ && !ceased_; ++i) {
    if (!under_way_) {
      under_way_ = core.next(peer_, kLimitsBetweenHosts.part_bytes);
      pushed_ = 0;
      moved = moved || under_way_;
    }
    if (!under_way_ || !push()) break;
    moved = true;
    if (pushed_ < sizeof(Frame) + under_way_->payload.size()) break;
    all += pushed_;
    core.gone(*under_way_);
    under_way_.reset();
  }
  return moved;
}

// Some of what is under way. False: the kernel took nothing.
bool P2pTcpLink::push() {
  const auto frame = std::as_bytes(std::span(&under_way_->frame, 1)).subspan(std::min(pushed_, sizeof(Frame)));
  const auto payload = under_way_->payload.subspan(std::max(pushed_, sizeof(Frame)) - sizeof(Frame));
  std::array<iovec, 2> parts{iovec{const_cast<std::byte*>(frame.data()), frame.size()},
                             iovec{const_cast<std::byte*>(payload.data()), payload.size()}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t n = ::sendmsg(socket_.fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n < 0 && !later()) deaf_ = true;
  if (n <= 0) return false;
  pushed_ += static_cast<std::size_t>(n);
  return true;
}

void P2pTcpLink::cease() {
  ceased_ = true;
  under_way_.reset();
}

pollfd P2pTcpLink::interest() const {
  const int events = (closed_ ? 0 : POLLIN) | (is_clear() ? 0 : POLLOUT);
  return {events == 0 ? -1 : socket_.fd(), static_cast<short>(events), 0};
}

P2pLink::Fate P2pTcpLink::fate() {
  const TcpLinks::State state = links_.state(peer_);
  if (state == TcpLinks::State::unreachable) return Fate::died;
  // What it sent is here before the end of the connection.
  if (!closed_ || (state == TcpLinks::State::here && Clock::now() < *closed_ + TcpLinks::kLastWord)) return Fate::here;
  return state == TcpLinks::State::left ? Fate::left : Fate::died;
}

// A connection that is closed while something unread lies at this end is reset, and what is not over there by then is
// lost. So it is read on, and closed when the other kernel has everything.
bool P2pTcpLink::has_arrived() {
  std::array<std::byte, kAhead> unread;
  const ssize_t n = closed_ ? 0 : ::recv(socket_.fd(), unread.data(), unread.size(), MSG_DONTWAIT);
  if (!closed_ && (n == 0 || (n < 0 && !later()))) closed_ = Clock::now();
  int unacknowledged = 0;
  return deaf_ || ::ioctl(socket_.fd(), SIOCOUTQ, &unacknowledged) != 0 || unacknowledged == 0;
}

}  // namespace dtrain
