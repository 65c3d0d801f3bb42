// See p2p_tcp_link.h.
#include "strategies/comm/p2p_tcp_link.h"

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

bool later() { return errno == EAGAIN || errno == EINTR; }

}  // namespace

P2pTcpLink::P2pTcpLink(TcpLinks& links, const ShmWait& wait, const P2pCore::Limits& limits, Buffer& buffer, int peer)
    : links_(links), wait_(wait), limits_(limits), buffer_(buffer), peer_(peer), socket_(links.take_messages(peer)) {}

// A process that was forked from this one may keep the connection open.
P2pTcpLink::~P2pTcpLink() { ::shutdown(socket_.fd(), SHUT_WR); }

// A frame that has begun, and some more.
std::size_t P2pTcpLink::buffer_bytes(const P2pCore::Limits& limits) {
  return 4 * (sizeof(Frame) + std::max(limits.part_bytes, limits.whole_bytes));
}

bool P2pTcpLink::take(P2pCore& core) {
  if (!readable_ || closed_) return false;
  readable_ = false;
  std::copy(begun_.begin(), begun_.end(), buffer_.begin());
  const ssize_t n = ::recv(socket_.fd(), buffer_.data() + begun_.size(), buffer_.size() - begun_.size(), MSG_DONTWAIT);
  if (n < 0 && later()) return false;
  if (n <= 0) {
    closed_ = Clock::now();
    return false;
  }
  std::span<const std::byte> come(buffer_.data(), begun_.size() + static_cast<std::size_t>(n));
  while (come.size() >= sizeof(Frame)) {
    Frame frame;
    std::memcpy(&frame, come.data(), sizeof frame);
    const bool sound = is_frame(frame);
    if (sound && come.size() < sizeof frame + frame.payload) break;
    if (!sound || !core.take(peer_, frame, come.subspan(sizeof frame, frame.payload)))
      wait_.fail({FailureKind::mismatched, peer_}, "messages",
                 fmt::format("rank {} sent something else than a message", peer_));
    come = come.subspan(sizeof frame + frame.payload);
  }
  begun_.assign(come.begin(), come.end());
  return true;
}

// Sizes that the core relies on: between hosts nothing else vouches for them.
bool P2pTcpLink::is_frame(const Frame& frame) const {
  if (frame.magic != Frame::kMagic || frame.text[sizeof frame.text - 1] != '\0') return false;
  switch (frame.kind) {
    case Frame::Kind::whole:
      return frame.payload == frame.bytes && frame.payload <= limits_.whole_bytes;
    case Frame::Kind::part:
      return frame.payload <= limits_.part_bytes;
    case Frame::Kind::offer:
    case Frame::Kind::grant:
    case Frame::Kind::credit:
      return frame.payload == 0;
    case Frame::Kind::skip:
      break;
  }
  return false;
}

bool P2pTcpLink::send(P2pCore& core) {
  // What is sent to a connection that is closed resets it, and with it what was on its way from there.
  deaf_ = deaf_ || links_.state(peer_) == TcpLinks::State::left;
  bool wrote = write_rest();
  for (int i = 0; i < kBurst && rest_.empty() && !deaf_; ++i) {
    const auto next = core.next(peer_, limits_.part_bytes);
    if (!next) break;
    write(*next);
    wrote = true;
  }
  return wrote;
}

void P2pTcpLink::write(const P2pCore::Outgoing& next) {
  std::array<iovec, 2> parts{iovec{const_cast<Frame*>(&next.frame), sizeof next.frame},
                             iovec{const_cast<std::byte*>(next.payload.data()), next.payload.size()}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  const ssize_t n = ::sendmsg(socket_.fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n < 0 && !later()) deaf_ = true;
  const auto gone = static_cast<std::size_t>(std::max<ssize_t>(n, 0));
  if (gone == sizeof next.frame + next.payload.size()) return;
  // The sender's memory is the caller's again.
  const auto frame = std::as_bytes(std::span(&next.frame, 1));
  rest_.assign(frame.begin(), frame.end());
  rest_.insert(rest_.end(), next.payload.begin(), next.payload.end());
  gone_ = gone;
}

bool P2pTcpLink::write_rest() {
  if (is_clear()) return false;
  const ssize_t n = ::send(socket_.fd(), rest_.data() + gone_, rest_.size() - gone_, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n < 0 && !later()) deaf_ = true;
  if (n <= 0) return false;
  gone_ += static_cast<std::size_t>(n);
  if (gone_ == rest_.size()) rest_.clear();
  return true;
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
  write_rest();
  const ssize_t n = closed_ ? 0 : ::recv(socket_.fd(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (!closed_ && (n == 0 || (n < 0 && !later()))) closed_ = Clock::now();
  int under_way = 0;
  return deaf_ || (rest_.empty() && (::ioctl(socket_.fd(), SIOCOUTQ, &under_way) != 0 || under_way == 0));
}

}  // namespace dtrain
